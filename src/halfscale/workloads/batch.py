"""What a data set gives to an instrument."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from torch import Tensor


class Batch(NamedTuple):
    """One micro-batch, on the CPU."""

    inputs: Tensor
    """Images (N, C, H, W) float32, or tokens (N, T) int64."""
    targets: Tensor
    """Class indices, (N,) for images or (N, T) for tokens, int64."""
    oracle_loss: Tensor | None
    """Mean of -ln P(target | input) under the true source, a float32 scalar in nats; None if it is not known."""


class Data(Protocol):
    """A data set of one block. What it gives depends on the seed and the index alone, never on what was asked before,
    so a resumed run sees the same batches and every arm of a block sees them in the same order."""

    fingerprint: str
    """Hash of the source itself, the same for every seed; runs with different ones are not compared."""
    floor: float | None
    """The lowest expected loss that any model can reach, in nats; None if it is not known."""

    def batch(self, index: int, size: int) -> Batch:
        """Return micro-batch number `index` of `size` training samples."""
        ...

    def evaluation(self, size: int) -> Iterator[Batch]:
        """Yield the held-out samples in batches of at most `size`."""
        ...
