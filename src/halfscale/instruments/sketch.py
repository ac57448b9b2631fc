"""Sketches: a thousand numbers that stand for all weights where their distance from others is asked for."""

from collections.abc import Iterable, Iterator
from itertools import cycle

import torch
from torch import Tensor

from halfscale.instruments.norms import flatten
from halfscale.study.samples import MOST_SKETCHED, SKETCH_WIDTH

CHUNK = 32 * SKETCH_WIDTH
"""Elements that are summed at once: as FP64 they stay in a core's cache."""

SIGNS = 2**18
"""Signs to draw from: each chunk takes a run of them that begins at a place of its own."""

SEED = 20180210
"""The same for all runs, so that their sketches can be subtracted."""


class Sketch:
    """A fixed random projection: weights with random signs, in rows of 1021, summed over the rows.

    It is linear, and the expected square of a difference of two sketches is the square of the weights' own distance, with
    a standard error of sqrt(2 / 1021) of it (sign sketches after Alon, Matias and Szegedy 1999, each of a part of the
    elements). In FP64: the sums must tell weights apart that differ by one ulp of FP32.

    Of more than MOST_SKETCHED weights only some are taken, the same in all runs: of each tensor every n-th row, which
    stands for the rows between, for tensors change by different amounts. One of a chunk or less is taken whole.
    """

    def __init__(self, device: str) -> None:
        generator = torch.Generator().manual_seed(SEED)
        signs = torch.randint(2, (SIGNS,), generator=generator) * 2.0 - 1.0
        self.signs = signs.to(device, torch.float64)
        self.starts = torch.randperm(SIGNS - CHUNK, generator=generator).tolist()

    @torch.no_grad()
    def of(self, tensors: Iterable[Tensor]) -> Tensor:
        """Return the sketch of some FP32 tensors, (1021,) float64 on their device, without waiting for it."""
        sums, wide = torch.zeros_like(self.signs[:CHUNK]), torch.empty_like(self.signs[:CHUNK])
        starts = cycle(self.starts)
        for part, share in parts_of([flatten(tensor) for tensor in tensors]):
            for chunk in part.split(CHUNK if part.dim() == 1 else CHUNK // SKETCH_WIDTH):
                count, start = chunk.numel(), next(starts)
                wide[:count].view_as(chunk).copy_(chunk)
                sums[:count].addcmul_(wide[:count], self.signs[start : start + count], value=share**-0.5)
        return sums.view(-1, SKETCH_WIDTH).sum(0)


def parts_of(flat: list[Tensor]) -> Iterator[tuple[Tensor, float]]:
    """Yield what is taken of some flat tensors, as it lies or in rows of a sketch's width, and which share it is."""
    every = -(-sum(tensor.numel() for tensor in flat) // MOST_SKETCHED)
    if every == 1:
        yield from ((tensor, 1.0) for tensor in flat)
        return
    small = [tensor for tensor in flat if tensor.numel() <= CHUNK]
    if small:
        yield torch.cat(small), 1.0  # quicker than one by one
    for tensor in flat:
        if tensor.numel() > CHUNK:
            taken = rows_of(tensor)[::every]
            yield taken, taken.numel() / tensor.numel()


def rows_of(flat: Tensor) -> Tensor:
    """Return the whole rows of a sketch's width that a flat tensor has."""
    return flat[: flat.numel() // SKETCH_WIDTH * SKETCH_WIDTH].view(-1, SKETCH_WIDTH)
