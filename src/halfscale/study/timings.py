"""The records of a throughput measurement: every timed step (Parquet), and what was in effect (JSON)."""

import hashlib
import json
from pathlib import Path
from typing import Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from halfscale.study.model import Model
from halfscale.study.records import COMPLETE, Effective, Environment, RecordError, sha256
from halfscale.study.throughput import ThroughputSpec
from halfscale.study.whole import whole_file, write_text

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


class Timed(Model):
    """A variant of the factorial and what was in effect while it was timed."""

    variant: str
    status: Literal["timed", "numerics only", "unavailable"]
    """numerics only: a format for which the CPU has no units, whose time says nothing about hardware."""
    effective: Effective | None
    """None where it was not timed."""
    warmup: int
    """Steps before the first block."""
    steady: bool
    """Whether the warm-up ended steady, and not at its longest."""
    scale: float | None
    """The settled loss scale; None where nothing was scaled."""
    skipped: int
    """Skipped steps among the timed ones. Not zero: an error."""


class Attained(Model):
    """What the device reaches on the simplest work, measured in the same process."""

    gemm: dict[str, float]
    """FLOP/s of a square matrix product, by precision."""
    copy_bandwidth: float
    """Bytes a second, read and written, of a copy that fits no cache."""
    transfer: dict[str, float]
    """Seconds to move one batch of inputs from host to device, by format; empty on a CPU."""


class ThroughputRecord(Model):
    """What one throughput measurement was, beside its steps."""

    spec: ThroughputSpec
    spec_hash: str
    timed: list[Timed]
    flops: dict[str, int]
    """Model FLOP of one step, forward and backward, counted on the eager model, by batch size (as text)."""
    samples_per_target: int
    """Predictions a sample: 1 for images, the sequence's length for tokens."""
    attained: Attained
    threads: int
    environment: Environment
    code: str
    seconds: float
    steps_sha256: str
    mark: Literal["halfscale-complete"] = COMPLETE
    sha256: str = ""
    """Of all the rest, set when it is written."""

    def digest(self) -> str:
        """Return the SHA-256 of all that the record says, in hex."""
        return hashlib.sha256(self.model_dump_json(exclude={"sha256"}).encode()).hexdigest()


def write_steps(steps: pd.DataFrame, spec: ThroughputSpec, path: Path) -> str:
    """Write every timed step; return the SHA-256 of the file."""
    metadata = {"spec_hash": spec.hash, "mark": COMPLETE}
    table = pa.Table.from_pandas(steps, schema=STEPS, preserve_index=False).replace_schema_metadata(metadata)
    with whole_file(path) as temporary:
        pq.write_table(table, temporary)
        return sha256(temporary)


def write_throughput(record: ThroughputRecord, path: Path) -> None:
    """Write a record as strict JSON."""
    signed = record.model_copy(update={"sha256": record.digest()})
    write_text(path, json.dumps(signed.model_dump(), indent=1, allow_nan=False) + "\n")


def read_throughput(folder: Path, spec: ThroughputSpec) -> tuple[ThroughputRecord, pd.DataFrame]:
    """Read throughput.json and steps.parquet of a measurement.

    Raises:
        RecordError: one is missing, not whole, of another spec, or they do not belong together.
    """
    path, steps = folder / "throughput.json", folder / "steps.parquet"
    try:
        record = ThroughputRecord.model_validate_json(path.read_text(encoding="utf-8"))
        found = sha256(steps)
    except OSError as error:
        raise RecordError(f"{error.filename}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, ValidationError):
        raise RecordError(f"{path}: is no whole record; delete it to have it measured again") from None
    if record.spec != spec or record.spec_hash != spec.hash:
        raise RecordError(f"{path}: belongs to another spec; delete it to have it measured again")
    if record.sha256 != record.digest():
        raise RecordError(f"{path}: is not what was written; delete it to have it measured again")
    if found != record.steps_sha256:
        raise RecordError(
            f"{steps}: is not the file that was written with {path.name}; delete it to have it measured again"
        )
    return record, pq.read_table(steps).to_pandas()
