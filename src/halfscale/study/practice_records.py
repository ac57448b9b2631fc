"""The records of a case of the practices: how each run ended (JSON), and its steps (Parquet)."""

from pathlib import Path
from typing import Literal

import pandas as pd
import pyarrow as pa

from halfscale.study.model import Model, Name
from halfscale.study.practices import PracticesSpec
from halfscale.study.records import Effective, Environment
from halfscale.study.sealed import Sealed, read_beside, read_sealed, write_beside

Status = Literal["completed", "diverged", "refused"]

STEPS = pa.schema(
    [
        pa.field("arm", pa.string(), nullable=False),
        pa.field("seed", pa.int32(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),  # optimizer step, from 0
        pa.field("loss", pa.float32(), nullable=False),  # nats, before the update, in FP32 whatever is differentiated
        pa.field("lr", pa.float64(), nullable=False),  # learning rate of this step
        pa.field("scale", pa.float32()),  # loss scale of this step; null where nothing is scaled
        pa.field("skipped", pa.bool_(), nullable=False),  # the update was not applied
    ]
)


class Outcome(Model):
    """How one run ended. A float that is not finite stands as null."""

    arm: Name
    seed: int
    status: Status
    """refused: PyTorch raised in the middle of a step, and the run ended there."""
    first_bad_step: int | None
    """Where the run diverged or was refused."""
    bad_where: str | None
    """What was not finite there."""
    said: str | None
    """PyTorch's own words: of its refusal, or of its first warning under a pitfall."""
    steps: int
    """Steps up to the first bad one, and all of them where there is none."""
    updates: int
    skipped: int
    growths: int
    backoffs: int
    final_scale: float | None
    first_lr: float | None
    """Learning rate of the first update that was applied."""
    initial_loss: float | None
    final_loss: float | None
    """Mean training loss over the last tenth of the steps; null where the run did not complete."""
    final_excess: float | None
    """The same, less the oracle's loss on the same samples; null where there is no oracle."""
    lost_updates: float | None
    """Share of the elements with a gradient whose weight an update left where it was, over the updates looked at."""
    eval_loss: float | None
    later_steps: int | None
    """Steps that were taken after a buffer had become bad, with good weights; null where none had."""
    later_finite: int | None
    """Those of them whose training loss was finite."""


class PracticesRecord(Sealed):
    """How every run of a case ended."""

    spec: PracticesSpec
    effective: dict[Name, Effective]
    """Of each arm."""
    outcomes: list[Outcome]
    environment: Environment
    code: str
    """Hash of the package sources that the record depends on."""
    seconds: float
    steps_sha256: str


def write_steps(steps: pd.DataFrame, spec: PracticesSpec, path: Path) -> str:
    """Write the steps of every run; return the SHA-256 of the file."""
    # A NaN loss is a value, and not a missing one.
    columns = [pa.array(steps[field.name].to_numpy(), field.type, from_pandas=field.nullable) for field in STEPS]
    return write_beside(pa.table(columns, schema=STEPS), spec, path)


def read_practices(folder: Path, spec: PracticesSpec) -> tuple[PracticesRecord, pd.DataFrame]:
    """Read practices.json and steps.parquet of a case.

    Raises:
        RecordError: one is missing, not whole, of another spec, or they do not belong together.
    """
    steps = folder / "steps.parquet"
    record = read_sealed(folder / "practices.json", PracticesRecord, spec)
    return record, read_beside(steps, record.steps_sha256)
