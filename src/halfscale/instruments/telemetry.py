"""The telemetry of a training run: one row a step, kept on the device and fetched a few steps at a time.

A read of the scale or of the loss on every step would make the host wait for the device on every step, and so
change what is measured. Everything computed on the device therefore goes into a buffer there; the host fetches it
every `FLUSH` steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

FLUSH = 10
"""Steps between two fetches from the device."""

GRAD_MAX_EVERY = 25
"""Steps between two samples of the largest gradient, which takes about as long as the norm does."""


class Column(IntEnum):
    """The columns of the buffer on the device, all float32."""

    LOSS = 0
    SCALE = 1
    SCALE_AFTER = 2
    FOUND_INF = 3
    GRAD_NORM = 4
    GRAD_MAX = 5
    BUFFERS_TIMES_ZERO = 6


@dataclass(frozen=True)
class Step:
    """What one step has to show. Tensors are float32 scalars, on the device where nothing else is said."""

    loss: Tensor
    oracle_loss: Tensor | None
    """On the CPU, where the data come from."""
    lr: float
    grad_norm: Tensor
    grad_max: Tensor | None
    scale: Tensor | None
    scale_after: Tensor | None
    found_inf: Tensor | None
    """From the scaler's own state; None where nothing is scaled."""
    updates: int
    """Updates applied so far, this step's included, as counted at the optimizer."""


class Fetched(NamedTuple):
    """A step on the host: its row of the trace, and whether the model's buffers were finite after it."""

    row: dict[str, Any]
    buffers_finite: bool


class Telemetry:
    """Collects the steps of one run into a trace (columns of halfscale.study.records.TRACE).

    On the device NaN stands for what a step does not have.
    """

    def __init__(self, model: nn.Module, device: str) -> None:
        self.buffers = watched_buffers(model)
        self.missing = torch.full((), torch.nan, device=device)
        self.zero = torch.zeros((), device=device)
        self.on_device = torch.empty(FLUSH, len(Column), device=device)
        self.waiting: list[Step] = []
        self.rows: list[dict[str, Any]] = []
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
        values[Column.BUFFERS_TIMES_ZERO] = times_zero(self.buffers.values()) if self.buffers else self.zero
        row = [self.missing if value is None else value for value in values]
        self.on_device[len(self.waiting)] = torch.stack(row)
        self.waiting.append(step)
        return len(self.waiting) == FLUSH

    def fetch(self) -> list[Fetched]:
        """Bring the waiting steps to the host and return them. The one place that waits for the device."""
        fetched = []
        for values, step in zip(self.on_device[: len(self.waiting)].cpu().numpy(), self.waiting, strict=True):
            row = self.make_row(values, step)
            self.rows.append(row)
            self.scales_after.append(optional(values[Column.SCALE_AFTER]))
            fetched.append(Fetched(row, bool(values[Column.BUFFERS_TIMES_ZERO] == 0)))
        self.waiting.clear()
        return fetched

    def make_row(self, values: np.ndarray, step: Step) -> dict[str, Any]:
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
        }

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: all rows, when none is waiting on the device."""
        assert not self.waiting, "fetch() first"
        return {"rows": self.rows, "scales_after": self.scales_after}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.rows, self.scales_after = state["rows"], state["scales_after"]

    def trace(self) -> pd.DataFrame:
        """Return all rows fetched so far."""
        return pd.DataFrame(self.rows)


def watched_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that are finite to begin with, by name: a mask of infinities is no sign of divergence."""
    return {
        name: buffer
        for name, buffer in model.named_buffers()
        if buffer.is_floating_point() and bool(buffer.isfinite().all())
    }


def times_zero(tensors: Iterable[Tensor]) -> Tensor:
    """Return 0 if every element of some small tensors is finite, NaN if any is not: a scalar on their device.

    Joined, multiplied and summed they take a third of the time that isfinite and all do.
    """
    joined = torch.cat([tensor if tensor.dim() == 1 else tensor.flatten() for tensor in tensors])
    return joined.mul_(0).sum()


def optional(value: np.float32) -> float | None:
    """Return what NaN stands for on the device: nothing."""
    return None if np.isnan(value) else float(value)


def total_norm(tensors: list[Tensor]) -> Tensor:
    """Return the L2 norm of all elements of at least one tensor, a float32 scalar; not finite if any element is not.

    What torch.nn.utils.get_total_norm computes, without its sorting by device and dtype, which on a CPU costs a
    quarter of the norm itself.
    """
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))


def norm_and_largest(gradients: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return total_norm, and the largest absolute element of all gradients, infinite or NaN if any is.

    The two go tensor by tensor together: one that fits the cache comes from memory once. The largest is aminmax
    over the memory as it lies: on a CPU, the maximum norm and strided aminmax are five to fifteen times slower.
    """
    norms, extremes = [], []
    for gradient in gradients:
        norms.append(torch.linalg.vector_norm(gradient))
        if gradient.numel():
            extremes.append(torch.stack(torch.aminmax(flatten(gradient))))
    return torch.linalg.vector_norm(torch.stack(norms)), torch.stack(extremes).abs().max()


def flatten(gradient: Tensor) -> Tensor:
    """Return a dense gradient's elements in memory order, without a copy for any memory format."""
    dense = gradient.is_contiguous() or gradient.is_contiguous(memory_format=torch.channels_last)
    return gradient.as_strided((gradient.numel(),), (1,)) if dense and gradient.dim() == 4 else gradient.flatten()
