"""What becomes of gradients too small for a half-precision format, told apart from zeros that were zero all along."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Underflow:
    """Counts over the elements of a reference; every fraction is of `elements`."""

    elements: int
    flushed: int
    """Not zero in the reference, zero after scaling and rounding: underflow."""
    subnormal: int
    """Not zero after scaling and rounding, but below the smallest normal number: kept with fewer bits."""
    true_zero: int
    """Zero in the reference, as under a dead ReLU; no scale changes it."""


def count_underflow(reference: Tensor, scale: float, dtype: torch.dtype = torch.float16) -> Underflow:
    """Count what rounding scale * reference to `dtype` does to small numbers.

    Args:
        reference: unscaled gradient in FP32, any shape.
        scale: the loss scale.
        dtype: the format rounded to.
    """
    rounded = (reference.float() * scale).to(dtype)
    zero = rounded == 0
    true_zero = reference == 0
    subnormal = ~zero & (rounded.abs() < torch.finfo(dtype).smallest_normal)
    return Underflow(
        elements=reference.numel(),
        flushed=int((zero & ~true_zero).sum()),
        subnormal=int(subnormal.sum()),
        true_zero=int(true_zero.sum()),
    )
