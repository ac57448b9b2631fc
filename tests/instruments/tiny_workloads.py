"""Models and data for tests, named in specs as tiny_workloads:function."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.checkpoint import checkpoint

from halfscale.numerics.upcast import Upcast
from halfscale.workloads.batch import Batch


class Clouds:
    """Two Gaussian clouds on a line of `width` coordinates; easy to tell apart."""

    fingerprint = "clouds"
    floor = None

    def __init__(self, seed: int, width: int) -> None:
        self.seed, self.width = seed, width

    def batch(self, index: int, size: int) -> Batch:
        generator = torch.Generator().manual_seed(1000 * self.seed + index)
        targets = torch.randint(2, (size,), generator=generator)
        inputs = torch.randn(size, self.width, generator=generator) + (2.0 * targets - 1.0)[:, None]
        return Batch(inputs, targets, None)

    def evaluation(self, size: int) -> Iterator[Batch]:
        yield self.batch(10_000, size)
        yield self.batch(10_001, max(1, size - 1))


def clouds(seed: int, /, *, width: int = 4) -> Clouds:
    return Clouds(seed, width)


def classifier(*, width: int = 4, hidden: int = 16, freeze: str = "nothing", dropout: float = 0.0) -> nn.Module:
    """A small perceptron; freeze "all" or "backbone" turns off the training of that part."""
    model = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, 2))
    if freeze == "all":
        model.requires_grad_(False)
    elif freeze == "backbone":
        model[0].requires_grad_(False)
    return model


class ShortClouds(Clouds):
    def batch(self, index: int, size: int) -> Batch:
        inputs, targets, oracle_loss = super().batch(index, size)
        return Batch(inputs, targets.to(torch.int32), oracle_loss)


class EndingClouds(Clouds):
    def batch(self, index: int, size: int) -> Batch:
        if index > 1:
            raise OSError("no more samples")
        return super().batch(index, size)


def ending_clouds(seed: int, /) -> Clouds:
    """Two batches, and an error."""
    return EndingClouds(seed, 4)


class FewClouds(Clouds):
    def batch(self, index: int, size: int) -> Batch:
        return super().batch(index, min(size, 5))


def few_clouds(seed: int, /) -> Clouds:
    """No more than five samples in a batch."""
    return FewClouds(seed, 4)


def short_clouds(seed: int, /) -> Clouds:
    """Targets of a dtype that torch takes for no class."""
    return ShortClouds(seed, 4)


class SlowClouds(Clouds):
    def batch(self, index: int, size: int) -> Batch:
        time.sleep(0.05)
        return super().batch(index, size)


def slow_clouds(seed: int, /) -> Clouds:
    """Fifty milliseconds a batch."""
    return SlowClouds(seed, 4)


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs).detach().requires_grad_()


def detached() -> nn.Module:
    """A model whose output is cut from its parameters."""
    return Detached()


class Cast(nn.Module):
    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.head, self.dtype = nn.Linear(4, 2), getattr(torch, dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs).to(self.dtype)


def cast(*, dtype: str) -> nn.Module:
    """A classifier whose logits are of another dtype."""
    return Cast(dtype)


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.EmbeddingBag(4, 2, sparse=True, mode="sum"), nn.Linear(2, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.table((inputs > 0).long()))


def sparse() -> nn.Module:
    """A model with a sparse gradient."""
    return Bag()


class Poisoned(nn.Module):
    """A model whose buffer becomes infinite in its fourth forward pass, while loss and gradients stay finite."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.register_buffer("passes", torch.zeros(1))
        self.register_buffer("statistics", torch.zeros(3))

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += 1
        if self.passes == 4:
            self.statistics[1] = torch.inf
        return self.head(inputs)


def poisoned() -> nn.Module:
    return Poisoned()


class Rising(nn.Module):
    """A model whose loss rises for good from its eleventh training pass on."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.register_buffer("passes", torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += 1
        logits = self.head(inputs)
        return logits - 100.0 * (self.passes > 10) * logits.sign()


def rising() -> nn.Module:
    return Rising()


class Watching(nn.Module):
    """A classifier of images that writes down in which mode and format it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 2, 2)
        self.seen: list[tuple[bool, bool, bool]] = []

    def forward(self, inputs: Tensor) -> Tensor:
        upcast = isinstance(_get_current_dispatch_mode(), Upcast)
        self.seen.append((self.training, upcast, inputs.is_contiguous(memory_format=torch.channels_last)))
        return self.head(inputs).flatten(1)


def watching() -> nn.Module:
    return Watching()


class Pictures(Clouds):
    """Clouds as 2x2 pictures of three channels, with an oracle whose loss is known to be 0.125."""

    floor = 0.125

    def batch(self, index: int, size: int) -> Batch:
        inputs, targets, _ = super().batch(index, size)
        return Batch(inputs.reshape(size, 3, 2, 2), targets, torch.tensor(0.125))


def pictures(seed: int, /) -> Pictures:
    return Pictures(seed, 12)


def with_mask(*, fill: float = -1e30) -> nn.Module:
    """A classifier that holds a causal mask of infinities, and one of numbers too large to square in FP32."""
    model = classifier()
    model.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1))
    model.register_buffer("large", torch.full((4,), fill))
    return model


def lazy() -> nn.Module:
    """A classifier whose weights have no values before its first forward pass."""
    return nn.Sequential(nn.LazyLinear(2))


def double() -> nn.Module:
    return classifier().double()


def born_double() -> nn.Module:
    return nn.Linear(2, 3, dtype=torch.float64)


def wide() -> nn.Module:
    """Layers so wide that 16-bit copies of their weights outweigh the activations of a few samples."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3072, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)
    )


class Unit(nn.Module):
    """One weight, zero at the start, whose gradient on Ones is exactly -1: two classes at even odds, and inputs of 2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        logit = nn.functional.linear(inputs, self.weight)
        return torch.cat([logit, torch.zeros_like(logit)], dim=1)


def unit() -> nn.Module:
    return Unit()


class WrappedUnit(nn.Module):
    """Unit as a module within another, so that it has a name."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Unit()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inner(inputs)


def wrapped_unit() -> nn.Module:
    return WrappedUnit()


class Ones(Clouds):
    """Samples that are all 2, and of class 0."""

    def batch(self, index: int, size: int) -> Batch:
        return Batch(torch.full((size, 1), 2.0), torch.zeros(size, dtype=torch.int64), None)


def ones(seed: int, /) -> Ones:
    return Ones(seed, 1)


def deep(*, activation: str = "gelu", width: int = 256, depth: int = 2) -> nn.Module:
    """A perceptron of a few hidden layers."""
    function = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}[activation]
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), function()]
    return nn.Sequential(*layers, nn.Linear(width, 2))


class Odd(nn.Module):
    """A classifier with parameters that get no gradient: one is not used, one only in FP32, and one has no elements."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.unused = nn.Parameter(torch.ones(3))
        self.only_in_fp32 = nn.Parameter(torch.ones(1))
        self.empty = nn.Parameter(torch.ones(0))

    def forward(self, inputs: Tensor) -> Tensor:
        logits = self.head(inputs) + self.empty.sum()
        return logits * self.only_in_fp32 if self.head(inputs).dtype is torch.float32 else logits


def odd() -> nn.Module:
    return Odd()


class Bypassed(nn.Module):
    """A classifier that uses its head's weights without calling it, as nn.MultiheadAttention does those of out_proj."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.linear(self.first(inputs), self.head.weight, self.head.bias)


def bypassed() -> nn.Module:
    return Bypassed()


class Pair(nn.Module):
    """A model that gives its logits twice."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(inputs), self.head(inputs)


def pair() -> nn.Module:
    return Pair()


class CutOff(nn.Module):
    """A model whose output no gradient leads away from."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs).detach()


def cut_off() -> nn.Module:
    return CutOff()


def cut_off_images() -> nn.Module:
    """The same, on images of four numbers."""
    return nn.Sequential(nn.Flatten(), CutOff())


class Warm(nn.Module):
    """Logits over a learned temperature, a parameter without dimensions that autocast promotes."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.head = nn.Linear(3 * 8 * 8, 10)
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.flatten(inputs)) * self.temperature


def warm() -> nn.Module:
    return Warm()


class Amplify(torch.autograd.Function):
    """Leaves values as they are, and multiplies their gradient by 1e8: infinite in FP16."""

    @staticmethod
    def forward(context: object, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(context: object, gradient: Tensor) -> Tensor:
        return gradient * 1e8


class Overflowing(nn.Module):
    """A classifier in whose fourth training pass FP16 overflows behind its layer `middle`, in either pass."""

    def __init__(self, pass_name: str) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.pass_name, self.passes = pass_name, 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += self.training
        hidden = self.middle(self.first(inputs))
        if self.passes == 4:
            hidden = Amplify.apply(hidden) if self.pass_name == "backward" else hidden * 1e8
        return self.last(hidden)


def overflowing(*, pass_name: str) -> nn.Module:
    return Overflowing(pass_name)


class Guarded(nn.Module):
    """A classifier that overflows FP16 ahead of its BatchNorm in its fourth training pass, and replaces NaN behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)
        self.passes = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += self.training
        hidden = self.first(inputs * 1e8 if self.passes == 4 else inputs)
        return self.last(self.norm(hidden).nan_to_num())


def guarded() -> nn.Module:
    return Guarded()


class PoisonedTwice(nn.Module):
    """A classifier with two averages: its second is infinite after its fourth training pass, its first after the seventh."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("first", torch.zeros(3))
        self.register_buffer("second", torch.zeros(3))
        self.passes = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += self.training
        self.first = self.first + (torch.inf if self.passes == 7 else 1.0)
        self.second = self.second + (torch.inf if self.passes == 4 else 1.0)
        return self.layer(inputs)


def poisoned_twice() -> nn.Module:
    return PoisonedTwice()


class NowAndThen(nn.Module):
    """A classifier of which one layer is used in every other training pass alone."""

    def __init__(self) -> None:
        super().__init__()
        self.extra, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.passes = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += self.training
        return self.head(inputs + self.extra(inputs) if self.passes % 2 == 0 else inputs)


def now_and_then() -> nn.Module:
    return NowAndThen()


class Weights(nn.Module):
    """A few weights, all of one value, for a loss that is a function of them alone."""

    def __init__(self, count: int, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((count,), value))


def squares() -> nn.Module:
    """Four weights of 3."""
    return Weights(4, 3.0)


def ones_weight() -> nn.Module:
    """Eight weights of 1."""
    return Weights(8, 1.0)


def depthwise() -> nn.Module:
    """Two filters for each channel of an image, and their means as six logits."""
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, groups=3, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Recurrent(nn.Module):
    """An LSTM over tokens below 8."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.cells, self.head = nn.Embedding(8, 4), nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.cells(self.table(tokens))[0])


def recurrent() -> nn.Module:
    return Recurrent()


class Multiplied(nn.Module):
    """A bilinear layer on images and themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten, self.layer = nn.Flatten(), nn.Bilinear(12, 12, 2)

    def forward(self, images: Tensor) -> Tensor:
        flat = self.flatten(images)
        return self.layer(flat, flat)


def multiplied() -> nn.Module:
    return Multiplied()


class Attentive(nn.Module):
    """A classifier whose samples all attend to one another, or to the mean of every third of them."""

    def __init__(self, thirds: bool) -> None:
        super().__init__()
        self.flatten, self.head, self.thirds = nn.Flatten(), nn.Linear(3, 2), thirds

    def forward(self, images: Tensor) -> Tensor:
        logits = self.head(self.flatten(images))
        if self.thirds:
            return logits + logits[::3].exp().mean(0)
        return torch.softmax(logits @ logits.T, -1) @ logits


def attentive(*, thirds: bool = False) -> nn.Module:
    return Attentive(thirds)


class Checkpointed(nn.Module):
    """A classifier of images whose first layer is computed once more on the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten, self.first, self.head = nn.Flatten(), nn.Sequential(nn.Linear(12, 4), nn.GELU()), nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(checkpoint(self.first, self.flatten(images), use_reentrant=False))


def checkpointed() -> nn.Module:
    return Checkpointed()


class Entangled(nn.Module):
    """A model of which a copy would be another: a hook belongs to a parameter, and a function holds on to it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight
        self.head.weight.register_hook(lambda gradient: gradient * 0.5)
        self.register_buffer("shift", torch.zeros(3))
        self.run = lambda inputs: self.head(self.second(self.first(inputs))) + self.shift

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.run(inputs)
        return logits


def entangled() -> nn.Module:
    """A model with tied weights, a hook on a parameter and a function that holds on to the model."""
    return Entangled()
