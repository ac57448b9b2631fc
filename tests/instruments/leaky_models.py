"""Models whose module `inner` lets something past its boundary, where no scale of its own can be undone."""

import threading

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class Model(nn.Module):
    """Three layers, whose gradients are larger than rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.inner(self.first(inputs)))


class Tied(Model):
    """Uses its inner weight once more itself, as where an embedding's weight gives the logits."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(linear(self.inner(self.first(inputs)).tanh(), self.inner.weight.t()))


class Box:
    """An object that torch knows nothing of."""

    def __init__(self, value: Tensor) -> None:
        self.value = value


class BoxedLinear(nn.Linear):
    def forward(self, inputs: Tensor) -> Box:  # type: ignore[override]
        return Box(super().forward(inputs))


class Boxed(Model):
    """Has an inner module that gives an object which holds its output."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = BoxedLinear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.inner(self.first(inputs)).value)


class AttributeLinear(nn.Linear):
    given: Tensor

    def forward(self) -> Tensor:  # type: ignore[override]
        return super().forward(self.given)


class Attribute(Model):
    """Gives its inner module its input as an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = AttributeLinear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        self.inner.given = self.first(inputs)
        output = self.last(self.inner())
        del self.inner.given
        return output


class InPlace(Model):
    """Reads what its inner module has changed in place, and not what that gives."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ReLU(inplace=True)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        self.inner(hidden)
        return self.last(hidden)


class Locked(Model):
    """Cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Shaky(Model):
    """Has buffers that a pass changes, and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))


def build(*, kind: str) -> nn.Module:
    torch.manual_seed(0)
    return {each.__name__: each for each in (Tied, Boxed, Attribute, InPlace, Locked, Shaky)}[kind]()
