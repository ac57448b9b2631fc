"""What a run samples of itself every few steps, beside its trace, and the checks of it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from halfscale.study.records import RecordError, read_parquet, write_parquet
from halfscale.study.spec import RunSpec

BINS = 256
"""Bins of a histogram of exponents: one for each value of FP32's exponent field."""

SKETCH_WIDTH = 1021
"""Numbers in a sketch of the weights: a prime, so that every column of a matrix spreads over all of them."""

MOST_SKETCHED = 2**22
"""Weights in a sketch, about: of a larger model's a fixed part of each tensor stands for all."""

SKETCH_ERROR = (2 / SKETCH_WIDTH) ** 0.5 / 2
"""Standard error of a distance between two sketches, relative to the distance itself: half of its square's."""

MOST_ELEMENTS = 2**18
"""About how many elements are looked at one by one: evenly strided ones of every parameter."""

MOST_PREDICTIONS = 1024
"""How many predictions of a micro-batch the logit sharpness is taken over, at the most: evenly strided ones."""

EPSILON = 1e-3
"""How far the logit sharpness moves a logit z: by EPSILON (|z| + 1). Keskar et al. (2017) have 1e-3; ours by choice."""

SAMPLES = pa.schema(
    [
        pa.field("step", pa.int32(), nullable=False),  # optimizer step, from 0
        # Elements of the unscaled gradient before clipping by FP32's exponent field: 0 holds zeros and FP32's
        # subnormals, e the magnitudes from 2^(e - 127) to twice that, 255 infinities and NaN. A parameter that got no
        # gradient in a step is not among them.
        pa.field("exponents", pa.list_(pa.int32(), BINS), nullable=False),
        pa.field("moved", pa.int32()),  # elements that the update moved; null on a skipped step, like what follows
        pa.field("lost_bf16", pa.int32()),  # those of them that would not have moved as BF16 weights
        pa.field("lost_fp16", pa.int32()),  # ... as FP16 weights
        pa.field("update_ratio", pa.float32()),  # L2 norm of the update over that of the weights
        pa.field(
            "headroom", pa.float32()
        ),  # log2(65504 / (scale x largest gradient)), bits; FP16 alone, by scale 1 too
        pa.field("sharpness", pa.float32()),  # of the loss in the logits, percent; null where the loss is not finite
        pa.field("sketch", pa.list_(pa.float64(), SKETCH_WIDTH), nullable=False),  # of the weights before the update
    ]
)


def write_samples(samples: pd.DataFrame, steps: int, spec: RunSpec, path: Path) -> str:
    """Check and write the samples of a run of so many steps; return the SHA-256 of the file."""
    check_samples(samples, steps, spec)
    return write_parquet([column(samples[field.name], field) for field in SAMPLES], SAMPLES, spec, path)


def column(values: pd.Series, field: pa.Field) -> pa.Array:
    """Return a column of samples; where each value is a list, NaN in it is a value."""
    if not pa.types.is_fixed_size_list(field.type):
        return pa.array(values.to_numpy(), field.type, from_pandas=field.nullable)
    flat = pa.array(np.concatenate(values.tolist()), field.type.value_type, from_pandas=False)
    return pa.FixedSizeListArray.from_arrays(flat, type=field.type)


def read_samples(path: Path, spec: RunSpec) -> pd.DataFrame:
    """Read the samples that belong to this spec.

    Raises:
        RecordError: the file is missing, cut short, without its end mark, or of another spec.
    """
    return read_parquet(path, SAMPLES, spec, "samples")


def check_samples(samples: pd.DataFrame, steps: int, spec: RunSpec) -> None:
    """Check what must be true of the samples of a run of so many steps.

    Raises:
        RecordError: a sampled step is missing or doubled, more updates are lost than were made, or counts of updates are
            not null together.
    """
    expected = list(range(0, steps, spec.sample_every))
    if list(samples["step"]) != expected:
        raise RecordError(
            f"samples of {len(samples)} steps, first {list(samples['step'])[:3]}; expected every "
            f"{spec.sample_every} of {steps}"
        )
    moved = samples["moved"].astype("float64")
    for name in ("lost_bf16", "lost_fp16"):
        lost = samples[name].astype("float64")
        if (lost > moved).any() or not lost.notna().equals(moved.notna()):
            raise RecordError(f"{name} does not fit moved")
