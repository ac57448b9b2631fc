"""The records that a run leaves: a trace (one row a step) and a summary (one record), and their checks."""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError, model_validator

from halfscale.errors import UserError
from halfscale.study.model import Model
from halfscale.study.spec import RunSpec
from halfscale.study.whole import whole_file, write_text

COMPLETE: Literal["halfscale-complete"] = "halfscale-complete"
"""The end-of-run mark of trace and summary."""

RECOVERY = "delete it to have it run again"
"""What a person does about a record that is not whole: the next call of Snakemake makes it anew."""

TRACE = pa.schema(
    [
        pa.field("step", pa.int32(), nullable=False),  # optimizer step, from 0
        pa.field("loss", pa.float32(), nullable=False),  # mean over the step's samples, nats, before the update
        pa.field("oracle_loss", pa.float32()),  # loss of the source itself on the same samples, nats; null if unknown
        pa.field("lr", pa.float64(), nullable=False),  # learning rate of this step
        pa.field("scale", pa.float32()),  # loss scale of this step; null where nothing is scaled
        pa.field("overflow", pa.bool_(), nullable=False),  # non-finite gradients found
        pa.field("skipped", pa.bool_(), nullable=False),  # the update was not applied
        pa.field("growth", pa.bool_(), nullable=False),  # the scale rose after this step
        pa.field("backoff", pa.bool_(), nullable=False),  # the scale fell after this step
        pa.field("updates", pa.int32(), nullable=False),  # updates applied, this step included
        pa.field("grad_norm", pa.float32(), nullable=False),  # L2 norm of the unscaled gradient before clipping
        pa.field("grad_max", pa.float32()),  # largest |unscaled gradient|; null on steps that are not sampled
        # On an overflow, the parameter that it was first seen in on the way back: the last in the order of the model whose
        # gradient is not finite.
        pa.field("bad_parameter", pa.string()),
        pa.field(
            "bad_pass", pa.string()
        ),  # the pass that overflowed: forward if the loss or a buffer is not finite, else backward
    ]
)


class RecordError(UserError):
    """A trace or a summary that is not what its path says; the message names the file."""


class Environment(Model):
    """Where a run was computed."""

    torch: str
    torchvision: str
    python: str
    platform: str
    device: str
    """The device's name as it reports it, such as a CPU model or a GPU."""
    cpu_capability: str
    """The vector units that torch's own CPU kernels use, such as AVX512."""
    cpu_features: list[str]
    """The CPU's half-precision units, such as avx512_bf16."""
    native_fp16: bool
    """Whether the device has FP16 matrix units that training can use."""
    native_bf16: bool
    commit: str
    """Of the working tree the code ran from, or "unknown"."""
    clean: bool
    """Whether that tree had no uncommitted change."""


class Effective(Model):
    """What was in effect, read back from torch and never copied from the config."""

    device: Literal["cpu", "cuda"]
    precision: Literal["fp32", "tf32", "fp16", "bf16"]
    fell_back: bool
    """Whether the precision asked for was not to be had and FP32 took its place."""
    backend: Literal["native", "upcast"]
    autocast_dtype: str | None
    """None where autocast was off."""
    scaler_enabled: bool
    tf32_matmul: bool
    tf32_convolution: bool
    fp16_reduced_precision_reduction: bool
    """Whether CUDA may sum parts of an FP16 product in FP16."""
    bf16_reduced_precision_reduction: bool
    data: str
    """Hash of the data source, so that runs on different data are never compared."""


class Summary(Model):
    """One record a run. A float that is not finite stands as null: JSON has no NaN."""

    run_id: str
    spec: RunSpec
    spec_hash: str
    status: Literal["completed", "diverged"]
    first_bad_step: int | None
    bad_where: str | None
    """Where a diverged run first went wrong, such as "loss" or "parameter layer1.0.conv1.weight"."""
    steps: int
    """Steps run; fewer than the spec's where the run diverged."""
    updates: int
    skipped: int
    overflows: int
    growths: int
    backoffs: int
    init_scale: float | None
    final_scale: float | None
    """The scale after the last step."""
    initial_loss: float | None
    final_loss: float | None
    """Mean training loss over the last tenth of the steps; null for a diverged run."""
    final_excess: float | None
    """The same, less the oracle's loss on the same samples; null where there is no oracle."""
    floor: float | None
    """The lowest expected loss that any model can reach on this data, in nats; null where it is not known."""
    eval_loss: float | None
    eval_excess: float | None
    eval_accuracy: float | None
    effective: Effective
    environment: Environment
    code: str
    """Hash of the package sources that the run depends on."""
    seconds: float
    """Wall time of the training loop. For orientation only: throughput has its own instrument."""
    trace_sha256: str
    samples_sha256: str
    mark: Literal["halfscale-complete"] = COMPLETE
    sha256: str = ""
    """Of all the rest, set when it is written: what a summary says is what its run said."""

    @model_validator(mode="after")
    def adds_up(self) -> Self:
        if self.updates + self.skipped != self.steps:
            raise ValueError(f"{self.updates} updates + {self.skipped} skipped is not {self.steps} steps")
        if self.status == "completed" and (self.steps != self.spec.steps or self.first_bad_step is not None):
            raise ValueError(f"completed, and yet {self.steps} of {self.spec.steps} steps or a bad step")
        if self.status == "diverged" and self.first_bad_step is None:
            raise ValueError("diverged, and yet no first bad step")
        return self


def final_steps(steps: int) -> int:
    """Return how many last steps a final loss is the mean of: a tenth, at least one."""
    return max(1, steps // 10)


def finite_or_none(value: float | None) -> float | None:
    """Return a float as strict JSON can hold it."""
    return None if value is None or not math.isfinite(value) else float(value)


def check_trace(trace: pd.DataFrame, spec: RunSpec) -> None:
    """Check what must be true of every trace.

    Raises:
        RecordError: steps are missing or doubled, skipped + updated is not steps, a step was skipped without
            overflow or scaler, a scaler let an overflow through, the scale grew on overflow or backed off without,
            or growths and backoffs do not add up to the change of the scale.
    """
    steps = len(trace)
    if not steps or steps > spec.steps or list(trace["step"]) != list(range(steps)):
        raise RecordError(
            f"trace has {steps} steps, first {list(trace['step'])[:3]}; expected 0, 1, 2, ... and at most {spec.steps}"
        )
    applied = trace["updates"].diff().fillna(trace["updates"]).to_numpy()
    if not np.array_equal(applied + trace["skipped"], np.ones(steps)):
        raise RecordError("updates + skipped is not 1 on every step")
    scaled = trace["scale"].notna()
    for broken, what in [
        (trace["skipped"] & ~trace["overflow"], "was skipped without an overflow"),
        (trace["skipped"] & ~scaled, "was skipped with nothing scaled"),
        (scaled & trace["overflow"] & ~trace["skipped"], "overflowed under a scaler and was not skipped"),
        (trace["growth"] & trace["overflow"], "overflowed and yet the scale grew"),
        (trace["backoff"] & ~trace["overflow"], "did not overflow and yet the scale backed off"),
        ((trace["growth"] | trace["backoff"]) & ~scaled, "changed a scale that is not there"),
        (
            trace["bad_pass"].notna() != trace["overflow"],
            "has an overflow without its pass, or a pass without overflow",
        ),
    ]:
        if broken.any():
            raise RecordError(f"step {int(broken.to_numpy().argmax())} {what}")
    check_scale_identity(trace, spec)


def check_scale_identity(trace: pd.DataFrame, spec: RunSpec) -> None:
    """Check log2(S_t / S_0) = growths x log2(growth_factor) + backoffs x log2(backoff_factor) at each step.

    Holds while the scale stays finite and is neither capped nor flushed by its own format, FP32. A factor that is no power
    of two is rounded with the scale each time, by half a unit in the last place at the most: 8.6e-8 of its logarithm.
    """
    scaling = spec.loss_scaling
    scale = trace["scale"].to_numpy(dtype=np.float64)
    if scaling.kind == "static":
        off = ~np.isnan(scale) & (scale != np.float32(scaling.scale))
        if off.any() or trace["growth"].any() or trace["backoff"].any():
            raise RecordError(f"the scale is static and yet changed, at step {int(np.argmax(off))}")
    if scaling.kind != "dynamic":
        return
    growths = trace["growth"].cumsum().shift(fill_value=0).to_numpy(dtype=np.float64)
    backoffs = trace["backoff"].cumsum().shift(fill_value=0).to_numpy(dtype=np.float64)
    expected = growths * math.log2(scaling.growth_factor) + backoffs * math.log2(scaling.backoff_factor)
    normal = (scale > 2.0**-126) & (scale < 2.0**126)
    observed = np.log2(scale, where=normal, out=np.zeros_like(scale)) - math.log2(scaling.init_scale)
    off = normal & (np.abs(observed - expected) > 1e-4 + 1e-7 * (growths + backoffs))
    if off.any():
        raise RecordError(f"growths and backoffs do not explain the scale at step {int(np.argmax(off))}")


def write_trace(trace: pd.DataFrame, spec: RunSpec, path: Path) -> str:
    """Check and write a trace; return the SHA-256 of the file."""
    check_trace(trace, spec)
    # A NaN loss is what a diverged run is about: only where a column may be null does NaN stand for "not known".
    columns = [pa.array(trace[field.name].to_numpy(), field.type, from_pandas=field.nullable) for field in TRACE]
    return write_parquet(columns, TRACE, spec, path)


def read_trace(path: Path, spec: RunSpec) -> pd.DataFrame:
    """Read a trace that belongs to this spec.

    Raises:
        RecordError: the file is missing, cut short, without its end mark, or of another spec.
    """
    return read_parquet(path, TRACE, spec, "trace")


def write_parquet(columns: Sequence[pa.Array], schema: pa.Schema, spec: RunSpec, path: Path) -> str:
    """Write a run's columns with the spec's hash and the end mark; return the SHA-256 of the file."""
    table = pa.table(list(columns), schema=schema.with_metadata({"spec_hash": spec.hash, "mark": COMPLETE}))
    with whole_file(path) as temporary:
        pq.write_table(table, temporary)
        digest = sha256(temporary)
    return digest


def read_parquet(path: Path, schema: pa.Schema, spec: RunSpec, what: str) -> pd.DataFrame:
    """Read what write_parquet wrote; `what` names it in errors, such as trace.

    Raises:
        RecordError: the file is missing, cut short, without its end mark, or of another spec.
    """
    try:
        # Not read_table, which sets up a dataset and threads: nine times the work for a file of this size.
        with pq.ParquetFile(path) as file:
            table = file.read(use_threads=False)
    except FileNotFoundError:
        raise RecordError(f"{path}: there is no such {what}") from None
    except (OSError, pa.ArrowException) as error:
        raise RecordError(f"{path}: is no whole {what}: {' '.join(str(error).split())}; {RECOVERY}") from None
    metadata = table.schema.metadata or {}
    if metadata.get(b"mark") != COMPLETE.encode():
        raise RecordError(f"{path}: has no end mark, so its run did not finish; {RECOVERY}")
    if metadata.get(b"spec_hash") != spec.hash.encode():
        raise RecordError(f"{path}: belongs to another spec; {RECOVERY}")
    if not table.schema.equals(schema, check_metadata=False):
        raise RecordError(f"{path}: has other columns than this version writes; {RECOVERY}")
    return table.to_pandas(use_threads=False)


def write_summary(summary: Summary, path: Path) -> None:
    """Write a summary as strict JSON."""
    signed = summary.model_copy(update={"sha256": digest_of(summary)})
    write_text(path, json.dumps(signed.model_dump(), indent=1, allow_nan=False) + "\n")


def read_summary(path: Path, spec: RunSpec) -> Summary:
    """Read a summary that belongs to this spec.

    Raises:
        RecordError: the file is missing, cut short, without its end mark, or of another spec.
    """
    try:
        summary = Summary.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RecordError(f"{path}: is no whole summary: it is not UTF-8 text; {RECOVERY}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise RecordError(
            f"{path}: is no whole summary: {f'{key}: ' if key else ''}{first['msg']}; {RECOVERY}"
        ) from None
    if summary.spec_hash != spec.hash or summary.spec != spec or summary.run_id != spec.run_id:
        raise RecordError(f"{path}: belongs to another spec; {RECOVERY}")
    if summary.sha256 != digest_of(summary):
        raise RecordError(f"{path}: is not what was written; {RECOVERY}")
    return summary


def digest_of(summary: Summary) -> str:
    """Return the SHA-256 of all that a summary says, in hex."""
    return hashlib.sha256(summary.model_dump_json(exclude={"sha256"}).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
