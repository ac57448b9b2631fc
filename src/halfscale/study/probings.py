"""The records of a probe: what each format and scale makes of each gradient (Parquet), and what was in effect (JSON)."""

from pathlib import Path

import pandas as pd
import pyarrow as pa

from halfscale.study.probe import ProbeSpec
from halfscale.study.records import Effective, Environment
from halfscale.study.sealed import Sealed, read_beside, read_sealed, write_beside

GRADIENTS = pa.schema(
    [
        pa.field("step", pa.int32(), nullable=False),  # optimizer steps that the weights have had
        pa.field("precision", pa.string(), nullable=False),  # fp32, bf16 or fp16
        pa.field("exponent", pa.int32()),  # of the loss scale; null where nothing is scaled
        pa.field("parameter", pa.string(), nullable=False),  # as the model names it; empty for all of them together
        pa.field("elements", pa.int64(), nullable=False),
        pa.field("norm", pa.float64()),  # L2 norm of g_32, that of loss / accumulate; null where it is no number
        pa.field("largest", pa.float64()),  # largest |g_32|
        pa.field("overflow", pa.bool_(), nullable=False),  # an element is not finite
        pa.field("error", pa.float64()),  # |g - g_32| / |g_32|, L2 norms; null where that is no number
        pa.field("cosine", pa.float64()),  # between g and g_32
        pa.field("true_zero", pa.int64(), nullable=False),  # elements that are zero in FP32
        pa.field("flushed", pa.int64(), nullable=False),  # zero here, not zero in FP32
        pa.field("subnormal", pa.int64(), nullable=False),  # 0 < |scale * g| < smallest normal number of the format
    ]
)


class ProbeRecord(Sealed):
    """What one probe was, beside its gradients."""

    spec: ProbeSpec
    effective: list[Effective]
    """Of each precision."""
    losses: list[float | None]
    """FP32 loss of the probed batch at each of the spec's steps, nats; None where it is not finite."""
    environment: Environment
    code: str
    """Hash of the package sources that the record depends on."""
    seconds: float
    gradients_sha256: str


def write_gradients(gradients: pd.DataFrame, spec: ProbeSpec, path: Path) -> str:
    """Write what every gradient came to; return the SHA-256 of the file."""
    return write_beside(pa.Table.from_pandas(gradients, schema=GRADIENTS, preserve_index=False), spec, path)


def read_probe(folder: Path, spec: ProbeSpec) -> tuple[ProbeRecord, pd.DataFrame]:
    """Read probe.json and gradients.parquet of a probe.

    Raises:
        RecordError: one is missing, not whole, of another spec, or they do not belong together.
    """
    gradients = folder / "gradients.parquet"
    record = read_sealed(folder / "probe.json", ProbeRecord, spec)
    return record, read_beside(gradients, record.gradients_sha256)
