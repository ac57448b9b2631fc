"""What a sampled step shows beside its row of the trace: looked at on the device, and left there to be fetched.

To be cheap, what is done element by element is done on a fixed sample: evenly strided elements of every parameter, about
2^18 at the most.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from halfscale.instruments.norms import flatten
from halfscale.instruments.sketch import Sketch
from halfscale.numerics.exponents import count_exponents
from halfscale.numerics.sharpness import sharpness, worst_loss
from halfscale.numerics.updates import lost_updates
from halfscale.study.records import finite_or_none
from halfscale.study.samples import EPSILON, MOST_ELEMENTS, MOST_PREDICTIONS


class Sample(NamedTuple):
    """One sampled step, on the device; halfscale.study.samples.SAMPLES says what each is."""

    exponents: Tensor
    """(256,), int64."""
    scalars: Tensor
    """(5,), float32: moved, lost_bf16, lost_fp16, update_ratio and sharpness."""
    sketch: Tensor
    """(1021,), float64."""


class Sampler:
    """Looks at a step where it passes: at its logits, its gradient, and its weights on both sides of the update.

    Args:
        parameters: those that the optimizer updates.
        every: steps from one sampled step to the next; the first is sampled.
        device: where they lie.
    """

    def __init__(self, parameters: Sequence[Tensor], every: int, device: str) -> None:
        self.parameters, self.every = parameters, every
        sizes = [parameter.numel() for parameter in parameters]
        self.stride = stride_of(sum(sizes), MOST_ELEMENTS, sizes)
        self.sketch = Sketch(device)
        self.losses: list[Tensor] = []

    def due(self, step: int) -> bool:
        """Say whether a step is sampled."""
        return step % self.every == 0

    @torch.no_grad()
    def see_logits(self, logits: Tensor, targets: Tensor) -> None:
        """Take in what the sharpness of one micro-batch needs: its loss, and the largest within the box.

        Args:
            logits: (N, classes) or (N, T, classes).
            targets: (N,) or (N, T), on any device.
        """
        rows, targets = logits.flatten(0, -2), targets.flatten().to(logits.device, non_blocking=True)
        stride = stride_of(len(rows), MOST_PREDICTIONS, logits.shape[:-1])
        rows, targets = rows[::stride].float(), targets[::stride]
        self.losses.append(torch.stack([worst_loss(rows, targets, 0.0), worst_loss(rows, targets, EPSILON)]))

    @torch.no_grad()
    def see_gradient(self, gradients: Sequence[Tensor]) -> None:
        """Take in the unscaled gradient, before it is clipped."""
        self.exponents = count_exponents(self.elements(gradients))

    @torch.no_grad()
    def see_weights(self) -> None:
        """Take in the weights before the update."""
        self.before = self.elements(self.parameters)
        self.sketched = self.sketch.of(self.parameters)

    @torch.no_grad()
    def finish(self) -> Sample:
        """Take in the weights after the update, and return the step."""
        update = self.elements(self.parameters) - self.before
        bf16, fp16 = (lost_updates(self.before, update, dtype) for dtype in (torch.bfloat16, torch.float16))
        ratio = torch.linalg.vector_norm(update) / torch.linalg.vector_norm(self.before)
        loss, worst = torch.stack(self.losses).mean(0)
        self.losses.clear()
        scalars = torch.stack(
            [*(count.float() for count in (bf16.of, bf16.lost, fp16.lost)), ratio, sharpness(loss, worst)]
        )
        return Sample(self.exponents, scalars, self.sketched)

    def elements(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the sampled elements of some tensors, in one row, FP32."""
        return torch.cat([flatten(tensor)[:: self.stride] for tensor in tensors]).float()


def stride_of(elements: int, most: int, sizes: Iterable[int]) -> int:
    """Return the stride that leaves at most so many of some elements: 1 where all may stay, else a prime.

    It divides none of the sizes: one that divides a matrix's width, or a kernel's, would meet one column of it alone.
    """
    stride = -(-elements // most)
    if stride == 1:
        return stride
    divided = set(sizes)
    while not is_prime(stride) or any(size % stride == 0 for size in divided):
        stride += 1
    return stride


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def sample_row(sample: Sample, trace: dict[str, Any], headroom: float | None) -> dict[str, Any]:
    """Return a fetched step as a row of samples; waits for the device.

    Args:
        sample: of the step.
        trace: its row of the trace.
        headroom: in bits; None where there is none.
    """
    moved, lost_bf16, lost_fp16, ratio, sharp = sample.scalars.tolist()
    skipped = trace["skipped"]
    return {
        "step": trace["step"],
        "exponents": sample.exponents.to("cpu", torch.int32),
        "moved": None if skipped else int(moved),
        "lost_bf16": None if skipped else int(lost_bf16),
        "lost_fp16": None if skipped else int(lost_fp16),
        "update_ratio": None if skipped else finite_or_none(ratio),
        "headroom": headroom,
        "sharpness": finite_or_none(sharp),
        "sketch": sample.sketch.cpu(),
    }
