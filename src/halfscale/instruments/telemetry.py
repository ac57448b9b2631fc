"""The telemetry of a training run: one row a step, kept on the device and fetched a few steps at a time.

A read of the scale or of the loss on every step would make the host wait for the device on every step, and so
change what is measured. Everything computed on the device therefore goes into a buffer there; the host fetches it
every `FLUSH` steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from halfscale.instruments.sampler import Sample, sample_row
from halfscale.numerics.formats import FP16

FLUSH = 10
"""Steps between two fetches from the device."""


class Column(IntEnum):
    """The columns of the buffer on the device, all float32."""

    LOSS = 0
    SCALE = 1
    SCALE_AFTER = 2
    FOUND_INF = 3
    GRAD_NORM = 4
    GRAD_MAX = 5
    BUFFERS = 6
    """0 if the model's buffers are finite, else NaN."""


@dataclass(frozen=True)
class Step:
    """What one step has to show. Tensors are float32 scalars, on the device where nothing else is said."""

    loss: Tensor
    oracle_loss: Tensor | None
    """On the CPU, where the data come from."""
    lr: float
    parameters: Sequence[Tensor]
    """Those that got a gradient, in the order of the model."""
    norms: Tensor
    """L2 norm of the gradient of each."""
    grad_norm: Tensor
    """Of all of them."""
    grad_max: Tensor | None
    scale: Tensor | None
    scale_after: Tensor | None
    found_inf: Tensor | None
    """From the scaler's own state; None where nothing is scaled."""
    updates: int
    """Updates applied so far, this step's included, as counted at the optimizer."""
    sample: Sample | None
    """None on a step that is not sampled."""


class Fetched(NamedTuple):
    """A step on the host: its row of the trace, and the first of the model's buffers that was not finite after it."""

    row: dict[str, Any]
    bad_buffer: str | None


class Telemetry:
    """Collects the steps of one run into a trace (columns of halfscale.study.records.TRACE), and the sampled ones into
    samples (columns of halfscale.study.samples.SAMPLES).

    On the device NaN stands for what a step does not have.
    """

    def __init__(self, model: nn.Module, device: str, precision: str) -> None:
        self.precision = precision
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.buffers = Buffers(model, device)
        self.missing = torch.full((), torch.nan, device=device)
        self.on_device = torch.empty(FLUSH, len(Column), device=device)
        self.waiting: list[tuple[Step, TimesZero]] = []
        self.rows: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self.scales_after: list[float | None] = []

    def record(self, step: Step) -> bool:
        """Take one step in without waiting for the device; return whether it is time to fetch."""
        values: list[Tensor | None] = [None] * len(Column)
        values[Column.LOSS] = step.loss
        values[Column.SCALE] = step.scale
        values[Column.SCALE_AFTER] = step.scale_after
        values[Column.FOUND_INF] = step.found_inf
        values[Column.GRAD_NORM] = step.grad_norm
        values[Column.GRAD_MAX] = step.grad_max
        buffers = self.buffers.times_zero()
        values[Column.BUFFERS] = buffers.total
        row = [self.missing if value is None else value for value in values]
        self.on_device[len(self.waiting)] = torch.stack(row)
        self.waiting.append((step, buffers))
        return len(self.waiting) == FLUSH

    def fetch(self) -> list[Fetched]:
        """Bring the waiting steps to the host and return them. The one place that waits for the device."""
        fetched = []
        for values, (step, buffers) in zip(
            self.on_device[: len(self.waiting)].cpu().numpy(), self.waiting, strict=True
        ):
            bad_buffer = None if values[Column.BUFFERS] == 0 else self.buffers.first_nonfinite(buffers)
            row = self.make_row(values, step, bad_buffer)
            self.rows.append(row)
            if step.sample is not None:
                self.samples.append(sample_row(step.sample, row, headroom(row, self.precision)))
            self.scales_after.append(optional(values[Column.SCALE_AFTER]))
            fetched.append(Fetched(row, bad_buffer))
        self.waiting.clear()
        return fetched

    def make_row(self, values: np.ndarray, step: Step, bad_buffer: str | None) -> dict[str, Any]:
        """Return one row of the trace; events come from the scaler's state, the optimizer and the scale, in turn."""
        before = self.rows[-1]["updates"] if self.rows else 0
        scaled = not np.isnan(values[Column.SCALE])
        overflow = values[Column.FOUND_INF] > 0 if scaled else not np.isfinite(values[Column.GRAD_NORM])
        return {
            "step": len(self.rows),
            "loss": float(values[Column.LOSS]),
            "oracle_loss": None if step.oracle_loss is None else float(step.oracle_loss),
            "lr": step.lr,
            "scale": optional(values[Column.SCALE]),
            "overflow": bool(overflow),
            "skipped": step.updates == before,
            "growth": bool(values[Column.SCALE_AFTER] > values[Column.SCALE]),
            "backoff": bool(values[Column.SCALE_AFTER] < values[Column.SCALE]),
            "updates": step.updates,
            "grad_norm": float(values[Column.GRAD_NORM]),
            "grad_max": optional(values[Column.GRAD_MAX]),
            "bad_parameter": self.bad_parameter(step) if overflow else None,
            "bad_pass": bad_pass(float(values[Column.LOSS]), bad_buffer) if overflow else None,
        }

    def bad_parameter(self, step: Step) -> str | None:
        """Return where a step that overflowed did so first, as far as the gradients tell.

        The backward pass goes from the model's end to its start, so the last parameter whose gradient is not finite is
        where the overflow arose. Infinite or NaN says nothing of that: an infinity times a zero is NaN at the origin too,
        and behind a ReLU an infinity stays one on its way back.
        """
        bad = step.norms.cpu().isfinite().logical_not()
        return self.names.get(id(step.parameters[int(bad.nonzero()[-1])])) if bad.any() else None

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: all rows, when none is waiting on the device."""
        assert not self.waiting, "fetch() first"
        return {"rows": self.rows, "scales_after": self.scales_after, "samples": self.samples}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.rows, self.scales_after, self.samples = state["rows"], state["scales_after"], state["samples"]

    def trace(self) -> pd.DataFrame:
        """Return all rows fetched so far."""
        return pd.DataFrame(self.rows)

    def sampled(self, steps: int) -> pd.DataFrame:
        """Return what was sampled in the first so many steps."""
        rows = [row for row in self.samples if row["step"] < steps]
        arrays = [{name: row[name].numpy() for name in ("exponents", "sketch")} for row in rows]
        return pd.DataFrame([row | array for row, array in zip(rows, arrays, strict=True)])


def bad_pass(loss: float, bad_buffer: str | None) -> Literal["forward", "backward"]:
    """Return the pass in which a step overflowed: the forward pass where it left its mark, on the loss or on a buffer.

    One that a later layer hides, as a sigmoid does that saturates, leaves none and counts as of the backward pass.
    """
    return "backward" if np.isfinite(loss) and bad_buffer is None else "forward"


def headroom(row: dict[str, Any], precision: str) -> float | None:
    """Return how many times the scaled gradient could double before FP16 cannot hold it, as bits.

    log2(65504 / (S max|g|)), an upper bound: the gradients of activations can overflow first. S is 1 where nothing is
    scaled. None in a precision that does not overflow there, and where the largest gradient is zero or not finite.
    """
    largest = row["grad_max"]
    if precision != "fp16" or not largest or not np.isfinite(largest):
        return None
    return math.log2(FP16.largest) - math.log2(row["scale"] or 1.0) - math.log2(largest)


class TimesZero(NamedTuple):
    """Buffers multiplied by zero: 0 for every element that is finite, NaN for every other. On their device."""

    total: Tensor
    """The sum, a scalar."""
    elements: Tensor
    """All of them in one row."""
    sizes: list[int]
    """How many of them are each buffer's."""


class Buffers:
    """The floating-point buffers of a model that are finite to begin with: a mask of infinities is no sign of divergence.

    Looked up anew each time, for a module may put another tensor in a buffer's place.
    """

    def __init__(self, model: nn.Module, device: str) -> None:
        self.places = {
            f"{path}.{name}" if path else name: (module, name)
            for path, module in model.named_modules()
            for name, buffer in module.named_buffers(recurse=False)
            if is_inexact(buffer) and bool(buffer.isfinite().all())
        }
        self.none = torch.zeros(0, device=device)

    def now(self) -> list[Tensor]:
        """Return them as they are, each in one row of real numbers; one that is gone is empty."""
        # Past a module's own lookup of attributes, which for a hundred buffers takes a tenth of a millisecond.
        buffers = [module._buffers.get(name) for module, name in self.places.values()]
        return [self.none if buffer is None else flat(buffer) for buffer in buffers]

    def times_zero(self) -> TimesZero:
        """Return them multiplied by zero: joined and summed, they take a third of the time that isfinite and all do."""
        buffers = self.now()
        elements = torch.cat([self.none, *buffers]).mul_(0)
        return TimesZero(elements.sum(), elements, [buffer.numel() for buffer in buffers])

    def first_nonfinite(self, seen: TimesZero) -> str | None:
        """Return the name of the first that was not finite when it was multiplied, None if all were."""
        buffers = zip(self.places, seen.elements.split(seen.sizes), strict=True)
        return next((name for name, buffer in buffers if buffer.isnan().any()), None)


def is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def flat(tensor: Tensor) -> Tensor:
    """Return a tensor's elements in one row, a complex one's parts as two."""
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real if real.dim() == 1 else real.flatten()


def optional(value: np.float32) -> float | None:
    """Return what NaN stands for on the device: nothing."""
    return None if np.isnan(value) else float(value)
