"""Predict the memory of a training step at any batch size, by kind, with nothing allocated.

Every storage of a step grows linearly with the batch, so that the memory at each moment does too, and the peak is the
largest of these lines. Two traces give them all: the peak is then known at every batch size, exactly.
"""

from dataclasses import dataclass

import numpy as np

from halfscale.errors import UserError
from halfscale.instruments.largest_batch import largest_batch
from halfscale.instruments.trace_step import Accounting, StepTrace, trace_step
from halfscale.study.predictions import KindBytes, Prediction
from halfscale.study.step import KINDS, Predicted, Step

SMALLEST: dict[Accounting, int] = {"cpu": 32, "cuda": 2}
"""The smallest batch size of a law. Below it, torch chooses other kernels for some operations, so each is traced."""


class PredictionError(UserError, RuntimeError):
    """A step whose memory cannot be predicted."""


@dataclass(frozen=True)
class Law:
    """Memory over one step as a function of the batch size: constant + slope x batch, at each moment and by kind."""

    constant: np.ndarray
    """(moments, kinds), bytes."""
    slope: np.ndarray
    """(moments, kinds), bytes a sample."""
    saved: tuple[int, int]
    """Of what is saved for the backward pass: constant, bytes, and slope, bytes a sample."""
    parameters: int
    """Of the model."""

    def at(self, batch_size: int) -> KindBytes:
        """Return the bytes of each kind at the moment of the peak."""
        by_kind = self.constant + self.slope * batch_size
        moment = by_kind.sum(axis=1).argmax()
        return KindBytes(**{kind: int(value) for kind, value in zip(KINDS, by_kind[moment], strict=True)})

    def peak(self, batch_size: int) -> int:
        """Return the bytes at the peak."""
        return int((self.constant.sum(axis=1) + self.slope.sum(axis=1) * batch_size).max())

    def saved_at(self, batch_size: int) -> int:
        """Return the bytes that are saved for the backward pass."""
        return self.saved[0] + self.saved[1] * batch_size

    def largest(self, memory: float) -> int:
        """Return the largest batch whose peak fits in so many bytes; 0 if not even one sample does."""
        return largest_batch(lambda batch: self.peak(batch) <= memory)


def memory_law(step: Step, precision: Predicted, accounting: Accounting) -> Law:
    """Trace two steps and return the law that both obey.

    Raises:
        PredictionError: the two steps do not do the same, so that there is no such law.
    """
    few = SMALLEST[accounting]
    many = few + few // 2
    small, large = (trace_step(step, precision, accounting, batch) for batch in (few, many))
    if small.events != large.events or small.kinds != large.kinds:
        raise PredictionError(
            f"{step.name}: the model does different things at batch sizes {few} and {many}, so that its memory "
            "follows no law; allowed: a model whose operations do not depend on the batch size"
        )
    sizes = np.array([small.sizes, large.sizes])
    slopes = (sizes[1] - sizes[0]) // (many - few)
    constants = sizes[0] - slopes * few
    saved = sorted(small.saved)
    return Law(
        constant=moments(small, constants),
        slope=moments(small, slopes),
        saved=(int(constants[saved].sum()), int(slopes[saved].sum())),
        parameters=small.parameters,
    )


def moments(trace: StepTrace, sizes: np.ndarray) -> np.ndarray:
    """Return what is alive after each event of a trace, by kind, (events, kinds), if storages had these sizes."""
    change = np.zeros((len(trace.events), len(KINDS)), dtype=np.int64)
    for moment, (storage, allocated) in enumerate(trace.events):
        change[moment, KINDS.index(trace.kinds[storage])] = sizes[storage] if allocated else -sizes[storage]
    return change.cumsum(axis=0)


def predict_directly(step: Step, precision: Predicted, accounting: Accounting, batch_size: int) -> Prediction:
    """Trace a step at this very batch size and return its peak by kind."""
    trace = trace_step(step, precision, accounting, batch_size)
    by_kind = moments(trace, np.array(trace.sizes))
    peak = by_kind[by_kind.sum(axis=1).argmax()]
    return Prediction(
        accounting=accounting,
        precision=precision,
        batch_size=batch_size,
        peak=KindBytes(**{kind: int(value) for kind, value in zip(KINDS, peak, strict=True)}),
        saved=trace.saved_bytes,
    )


def predict(step: Step, precision: Predicted, accounting: Accounting, batch_size: int, law: Law) -> Prediction:
    """Return the peak at a batch size, by the law where that reaches and else by a trace of its own."""
    if batch_size < SMALLEST[accounting]:
        return predict_directly(step, precision, accounting, batch_size)
    return Prediction(
        accounting=accounting,
        precision=precision,
        batch_size=batch_size,
        peak=law.at(batch_size),
        saved=law.saved_at(batch_size),
    )
