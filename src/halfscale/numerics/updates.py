"""Updates that vanish in a weight of half precision, which is why mixed precision keeps FP32 weights."""

from typing import NamedTuple

import torch
from torch import Tensor


class LostUpdates(NamedTuple):
    """Counts over some elements, int64 scalars on their device, so that counting waits for no device."""

    lost: Tensor
    """The update is not zero, and the weight stays what it was."""
    of: Tensor
    """The update is not zero."""


def lost_updates(weight: Tensor, update: Tensor, dtype: torch.dtype) -> LostUpdates:
    """Count the updates that would leave a weight kept in `dtype` where it is.

    The sum is taken in FP32 and rounded once, as an optimizer with half-precision weights does at its best: an update
    is lost where it is smaller than half the gap from the weight to the next number, about |w| times the unit roundoff
    (Micikevicius et al. 2018, arXiv 1710.03740, section 3.1).

    Args:
        weight: FP32 weights before the update, any shape.
        update: what is added to them, FP32, of the same shape.
        dtype: the format that the weights would be kept in.
    """
    kept = weight.to(dtype)
    moving = update != 0
    lost = ((kept.float() + update).to(dtype) == kept) & moving
    return LostUpdates(lost.sum(), moving.sum())
