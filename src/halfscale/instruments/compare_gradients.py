"""What a format and a loss scale make of a gradient, held against the FP32 gradient of the same batch.

All arithmetic is FP64: there, whatever FP32 holds, divided by any loss scale and squared, is neither zero nor infinite.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PART = 2**16
"""Elements that are compared at a time."""


@dataclass(frozen=True)
class Compared:
    """A gradient beside its FP32 twin. Sums, so that those of several tensors add up."""

    elements: int
    squared: float
    """Sum of squares of the FP32 gradient."""
    largest: float
    """Largest |FP32 gradient|."""
    overflow: bool
    """Whether an element is not finite."""
    squared_error: float
    """Sum of squares of the difference; NaN or infinite on overflow."""
    squared_own: float
    """Sum of squares of the gradient itself."""
    product: float
    """Scalar product of the two."""
    true_zero: int
    """Elements that are zero in FP32, as under a dead ReLU: no scale changes them."""
    flushed: int
    """Elements that are zero here and not in FP32: underflow."""
    subnormal: int
    """Elements below the format's smallest normal number while they were scaled, and not zero."""

    def __add__(self, other: "Compared") -> "Compared":
        return Compared(
            elements=self.elements + other.elements,
            squared=self.squared + other.squared,
            largest=max(self.largest, other.largest),
            overflow=self.overflow or other.overflow,
            squared_error=self.squared_error + other.squared_error,
            squared_own=self.squared_own + other.squared_own,
            product=self.product + other.product,
            true_zero=self.true_zero + other.true_zero,
            flushed=self.flushed + other.flushed,
            subnormal=self.subnormal + other.subnormal,
        )

    @property
    def norm(self) -> float:
        """L2 norm of the FP32 gradient."""
        return math.sqrt(self.squared)

    @property
    def error(self) -> float | None:
        """Relative error |g - g_32| / |g_32|; None on overflow, and where the FP32 gradient is zero."""
        if self.overflow or self.squared == 0:
            return None
        return math.sqrt(self.squared_error / self.squared)

    @property
    def cosine(self) -> float | None:
        """Cosine between the two; None on overflow, and where one of them is zero."""
        if self.overflow or self.squared == 0 or self.squared_own == 0:
            return None
        return self.product / math.sqrt(self.squared * self.squared_own)


class Reference:
    """An FP32 gradient that others are compared with, and what is known of it alone."""

    def __init__(self, gradient: Tensor) -> None:
        """Take a gradient of the loss itself, FP32, any shape."""
        self.largest = float(gradient.abs().max())
        self.parts = gradient.flatten().split(PART)
        self.zeros = int((gradient == 0).sum())
        doubles = (part.double() for part in self.parts)
        self.squared = total([torch.dot(part, part) for part in doubles])


def compare(gradient: Tensor, reference: Reference, scale: float, smallest_normal: float) -> Compared:
    """Compare a gradient with its FP32 twin.

    Args:
        gradient: of the scaled loss, FP32 storage, divided by nothing: scale x g.
        reference: the gradient of the loss itself, same shape.
        scale: the loss scale, a power of two, so that dividing by it is exact.
        smallest_normal: of the format that the gradient went through; 0 where there is none to fall below.
    """
    # Part by part, each of which stays in the processor's cache while all is asked of it.
    parts = zip(gradient.flatten().split(PART), reference.parts, strict=True)
    found = [compare_part(own, other, scale, smallest_normal) for own, other in parts]
    largest, flushed, subnormal, squared_error, squared_own, product = zip(*found, strict=True)
    return Compared(
        elements=gradient.numel(),
        squared=reference.squared,
        largest=reference.largest,
        overflow=not bool(torch.isfinite(torch.stack(largest).max())),  # max keeps NaN
        squared_error=total(squared_error),
        squared_own=total(squared_own),
        product=total(product),
        true_zero=reference.zeros,
        flushed=int(torch.stack(flushed).sum()),
        subnormal=int(torch.stack(subnormal).sum()),
    )


def compare_part(gradient: Tensor, reference: Tensor, scale: float, smallest_normal: float) -> tuple[Tensor, ...]:
    """Return of a part, on its device: largest |gradient|, flushed, subnormal, and the three sums of products."""
    magnitude = gradient.abs()
    zero = magnitude == 0
    subnormal = (magnitude < smallest_normal) & ~zero
    flushed = zero & (reference != 0)
    own, other = gradient.double() / scale, reference.double()
    squared_own, product = torch.dot(own, own), torch.dot(own, other)
    own -= other
    return magnitude.max(), flushed.sum(), subnormal.sum(), torch.dot(own, own), squared_own, product


def total(sums: Sequence[Tensor]) -> float:
    """Return the sum of sums over parts."""
    return float(torch.stack(list(sums)).sum())
