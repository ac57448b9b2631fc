"""Models whose output dtypes are known by heart, named in specs as watched_models:function."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def norms() -> nn.Module:
    """What follows a matrix product is given its 16 bits."""
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 2))


class Residual(nn.Module):
    """Convolution, BatchNorm and a residual addition in place, as in a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        stem = self.stem(inputs)
        out = self.norm(stem)
        out += stem
        return self.head(self.relu(out).mean((2, 3)))


def residual() -> nn.Module:
    return Residual()


class Named(nn.Module):
    """A module without children that gives a mapping, and a tensor that is no float in it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, inputs: Tensor) -> dict[str, Any]:
        product = functional.linear(inputs, self.weight)
        return {"product": product, "largest": (product.argmax(1), inputs), "note": "text"}


class Text(nn.Module):
    """A module without children that gives no tensor."""

    def forward(self, inputs: Tensor) -> str:
        return "text"


class Peculiar(nn.Module):
    """Outputs of every kind; a module called twice, and one that is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.named = Named()
        self.text = Text()
        self.shared = nn.Linear(4, 4)
        self.again = self.shared
        self.spare = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.pooling = nn.MaxPool1d(2, return_indices=True)
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        self.text(inputs)
        product = self.named(inputs)["product"]
        values, places = torch.sort(self.again(self.shared(product)))
        self.pooling(values[:, None])
        return self.head(values + places)


def peculiar() -> nn.Module:
    return Peculiar()


class Recurrent(nn.Module):
    """A model whose CUDA kernels are cuDNN's own, which ask for a GPU whatever the tensors are."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(4, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        sequence, _ = self.recurrent(inputs[:, None])
        return self.head(sequence[:, 0])


def recurrent() -> nn.Module:
    return Recurrent()


class Curious(nn.Module):
    """A model that looks at the values of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        logits = self.head(inputs)
        return logits if float(logits.detach().abs().max()) < 1e9 else -logits


def curious() -> nn.Module:
    return Curious()


class Identity(torch.autograd.Function):
    """An autograd function of the user's own, whose backward pass needs the values of the gradient."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient if float(gradient.abs().max()) < 1e9 else -gradient


class CuriousBackwards(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return Identity.apply(self.head(inputs))


def curious_backwards() -> nn.Module:
    """A model whose forward pass can be predicted and whose backward pass cannot."""
    return CuriousBackwards()


def bare() -> nn.Module:
    """A model that is a single module, and of whose parameters one does not train."""
    model = nn.Linear(4, 2)
    model.bias.requires_grad_(False)
    return model
