"""Predict the memory of a training step at any batch size, by kind, with nothing allocated.

Every storage of a step grows linearly with the batch, so that the memory at each moment does too, and the peak is the
largest of these lines. Two traces give them all: the peak is then known at every batch size, exactly. A third, of a
batch far off, shows whether it is so.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from halfscale.errors import UserError
from halfscale.instruments.largest_batch import largest_batch
from halfscale.instruments.trace_step import Accounting, StepTrace, trace_step
from halfscale.study.predictions import KindBytes, Prediction
from halfscale.study.step import KINDS, Predicted, Step

SMALLEST: dict[Accounting, int] = {"cpu": 32, "cuda": 2}
"""The smallest batch size of a law. Below it, torch chooses other kernels for some operations, so each is traced."""


FAR = 8
"""Times the smallest batch size, where a law that two others gave is held against a trace."""


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
        by_kind = line(self.constant, self.slope, batch_size)
        moment = by_kind.sum(axis=1).argmax()
        return KindBytes(**{kind: int(value) for kind, value in zip(KINDS, by_kind[moment], strict=True)})

    def peak(self, batch_size: int) -> int:
        """Return the bytes at the peak."""
        return int(line(self.constant.sum(axis=1), self.slope.sum(axis=1), batch_size).max())

    def saved_at(self, batch_size: int) -> int:
        """Return the bytes that are saved for the backward pass."""
        return self.saved[0] + self.saved[1] * batch_size

    def largest(self, memory: float) -> int:
        """Return the largest batch whose peak fits in so many bytes; 0 if not even one sample does."""
        return largest_batch(lambda batch: self.peak(batch) <= memory)


def line(constant: np.ndarray, slope: np.ndarray, batch_size: int) -> np.ndarray:
    """Return constant + slope x batch size, exactly, and so that the kinds' sum does not overflow either."""
    most = (int(np.abs(constant).max()) + int(np.abs(slope).max()) * batch_size) * len(KINDS)
    # A deep model at the largest batch there may be has more bytes than 64 bits count; Python's integers are slower.
    return constant + (slope if most < 2**63 else slope.astype(object)) * batch_size


def memory_law(step: Step, precision: Predicted, accounting: Accounting, *, far: bool = True) -> Law:
    """Trace two steps, return the law that both obey, and hold it against a third of a batch far off.

    Args:
        step: to trace.
        precision: of its autocast.
        accounting: whose kernels and autocast.
        far: whether to trace the third.

    Raises:
        PredictionError: the steps do not do the same, or do not grow with the batch as a line, so that there is no such
            law.
    """
    few = SMALLEST[accounting]
    many = few + few // 2
    batches = (few, many, FAR * few) if far else (few, many)
    traces = {batch: trace_step(step, precision, accounting, batch) for batch in batches}
    small = traces[few]
    for batch, trace in traces.items():
        if small.events != trace.events or small.kinds != trace.kinds:
            raise PredictionError(
                f"{step.name}: the model does different things at batch sizes {few} and {batch}, so that its memory "
                "follows no law; allowed: a model whose operations do not depend on the batch size"
            )
    constants = np.array(small.sizes)
    slopes = (np.array(traces[many].sizes) - constants) // (many - few)
    constants -= slopes * few
    for batch, trace in traces.items():
        off = np.flatnonzero(constants + slopes * batch != trace.sizes)
        if off.size:
            raise PredictionError(not_linear(step, traces, int(off[0])))
    saved = sorted(small.saved)
    return Law(
        constant=moments(small, constants),
        slope=moments(small, slopes),
        saved=(int(constants[saved].sum()), int(slopes[saved].sum())),
        parameters=small.parameters,
    )


def not_linear(step: Step, traces: Mapping[int, StepTrace], storage: int) -> str:
    """Return the message on a storage that grows otherwise than a law allows.

    Args:
        step: that was traced.
        traces: of it, by batch size.
        storage: its number.
    """
    first = next(iter(traces.values()))
    sizes = ", ".join(f"{trace.sizes[storage]} at {batch}" for batch, trace in traces.items())
    return (
        f"{step.name}: the output of {first.makers.get(storage, 'the model')} ({first.kinds[storage]}) does not grow in "
        f"proportion to the batch, bytes by batch size: {sizes}; allowed: a model that handles each sample by itself"
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
