"""Sketches: a thousand numbers that stand for all weights where their distance from others is asked for."""

from collections.abc import Iterable

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

    Of more than MOST_SKETCHED weights only every n-th chunk is taken, the same in all runs, and stands for the others.
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
        chunks = [chunk for tensor in tensors for chunk in flatten(tensor).split(CHUNK)]
        elements = sum(chunk.numel() for chunk in chunks)
        taken = chunks[:: -(-elements // MOST_SKETCHED)]
        for index, chunk in enumerate(taken):
            count, start = chunk.numel(), self.starts[index % len(self.starts)]
            sums[:count].addcmul_(wide[:count].copy_(chunk), self.signs[start : start + count])
        share = sum(chunk.numel() for chunk in taken) / elements
        return sums.view(-1, SKETCH_WIDTH).sum(0) / share**0.5
