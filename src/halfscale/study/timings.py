"""The records of a throughput measurement: every timed step (Parquet), and what was in effect (JSON)."""

import math
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import pyarrow as pa
from pydantic import AllowInfNan, BeforeValidator, PlainSerializer

from halfscale.study.model import Model
from halfscale.study.records import Effective, Environment
from halfscale.study.sealed import Sealed, read_beside, read_sealed, write_beside
from halfscale.study.throughput import ThroughputSpec

Status = Literal["timed", "numerics only", "unavailable"]
"""numerics only: a format for which the CPU has no units, whose time says nothing about hardware."""

STEPS = pa.schema(
    [
        pa.field("block", pa.int32(), nullable=False),  # from 0
        pa.field("position", pa.int32(), nullable=False),  # the variant's turn within the block, from 0
        pa.field("variant", pa.string(), nullable=False),  # name of the variant
        pa.field("loader", pa.bool_(), nullable=False),  # the batch was made and moved within the step
        pa.field("step", pa.int32(), nullable=False),  # within the turn, from 0
        pa.field("seconds", pa.float64(), nullable=False),  # of the whole step
        pa.field("forward", pa.float64(), nullable=False),  # seconds of the forward pass, the loss included
        pa.field("backward", pa.float64(), nullable=False),  # seconds of the backward pass
        pa.field("optimizer", pa.float64(), nullable=False),  # seconds of unscaling, update and clearing of gradients
        pa.field("wall", pa.float64(), nullable=False),  # host seconds of the turn, divided by its steps
    ]
)


Flops = Annotated[
    int | Annotated[float, AllowInfNan(True)],
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(lambda value: None if math.isnan(value) else value),
]
"""A count of FLOP; NaN where it is not known, which JSON has as null, so that every rate of it is NaN too."""


class Timed(Model):
    """A variant of the factorial and what was in effect while it was timed."""

    variant: str
    status: Status
    effective: Effective | None
    """None where it was not timed."""
    warmup: int
    """Steps before the first block."""
    steady: bool
    """Whether the warm-up ended steady, and not at its longest."""
    scale: float | None
    """The settled loss scale; None where nothing was scaled."""


class Attained(Model):
    """What the device reaches on the simplest work, measured in the same process."""

    gemm: dict[str, float]
    """FLOP/s of a square matrix product, by precision."""
    copy_bandwidth: float
    """Bytes a second, read and written, of a copy that fits no cache."""
    transfer: dict[str, float]
    """Seconds to move one batch of inputs from host to device, by format; empty on a CPU."""


class GpuLook(Model):
    """One look at a GPU while it was timed."""

    sm_clock: float
    """MHz."""
    power: float
    """W."""
    temperature: float
    """Degrees Celsius."""
    held_back: bool
    """Whether power or heat kept the clock down."""


class DataSheet(Model):
    """What the data sheet of the device at hand says, where it is listed in halfscale.machine.peaks."""

    device: str
    """Its name there."""
    peaks: dict[str, float]
    """Dense FLOP/s, by precision."""
    least_seconds: dict[str, float]
    """Of a step as the roofline bounds it, by variant; empty where a sample is neither a square image nor tokens,
    where an operation has no formula, and where the step cannot be traced."""


class ThroughputRecord(Sealed):
    """What one throughput measurement was, beside its steps."""

    spec: ThroughputSpec
    timed: list[Timed]
    flops: dict[str, Flops]
    """Model FLOP of one step, forward and backward, counted on the eager model, by batch size (as text); null where an
    operation of much arithmetic has no formula."""
    targets_per_sample: int
    """Predictions a sample: 1 for images, the sequence's length for tokens."""
    attained: Attained
    sheet: DataSheet | None
    """None where the device is not listed, as no CPU is."""
    gpu: list[GpuLook]
    """A look a second over all blocks; empty on a CPU."""
    threads: int
    environment: Environment
    code: str
    seconds: float
    steps_sha256: str


def write_steps(steps: pd.DataFrame, spec: ThroughputSpec, path: Path) -> str:
    """Write every timed step; return the SHA-256 of the file."""
    return write_beside(pa.Table.from_pandas(steps, schema=STEPS, preserve_index=False), spec, path)


def read_throughput(folder: Path, spec: ThroughputSpec) -> tuple[ThroughputRecord, pd.DataFrame]:
    """Read throughput.json and steps.parquet of a measurement.

    Raises:
        RecordError: one is missing, not whole, of another spec, or they do not belong together.
    """
    steps = folder / "steps.parquet"
    record = read_sealed(folder / "throughput.json", ThroughputRecord, spec)
    return record, read_beside(steps, record.steps_sha256)
