"""Samples that nobody took: exponents, lost updates and distances that are known."""

from typing import Any

import numpy as np
import pandas as pd

from halfscale.study.runs import RunSpec
from halfscale.study.samples import BINS, SKETCH_WIDTH

ELEMENTS = 1000
ULP = 1e-8
"""Distance of the twin from the reference at the start; it doubles every ten steps."""

AWAY = {"fp32": 0.0, "bf16": 8e3, "fp16": 1e3}
"""Distance of a precision from FP32 after one step, in units of the twin's; before the first there is none."""


def make_samples(spec: RunSpec, trace: pd.DataFrame) -> pd.DataFrame:
    """Return the samples that go with a made-up trace.

    Of a thousand gradient elements a hundred are zero, and the others lie from 2^-40 to 2^-11, thirty to a binade,
    one binade lower every twenty steps. Of 900 updates BF16 loses 450 and one more a step, FP16 a third of them. The
    weights move away from the block's along one direction of their own: the twin by an ulp that doubles every ten
    steps, a precision by as many of these as AWAY says.
    """
    rows: list[dict[str, Any]] = []
    for _, step in trace[trace["step"] % spec.sample_every == 0].iterrows():
        number, skipped = int(step["step"]), bool(step["skipped"])
        exponents = np.zeros(BINS, dtype=np.int32)
        exponents[0] = 100
        exponents[127 - 40 - number // 20 :][:30] = 30
        largest = step["grad_max"]
        fp16 = spec.precision == "fp16" and largest is not None and np.isfinite(largest)
        scale = step["scale"] if step["scale"] is not None and np.isfinite(step["scale"]) else 1.0
        rows.append(
            {
                "step": number,
                "exponents": exponents,
                "moved": None if skipped else 900,
                "lost_bf16": None if skipped else 450 + number,
                "lost_fp16": None if skipped else 150 + number // 3,
                "update_ratio": None if skipped else 1e-3,
                "headroom": float(np.log2(65504 / (scale * largest))) if fp16 else None,
                "sharpness": 0.5 if np.isfinite(step["loss"]) else None,
                "sketch": make_sketch(spec, number),
            }
        )
    return pd.DataFrame(rows)


def make_sketch(spec: RunSpec, step: int) -> np.ndarray:
    """Return the sketch of the weights before a step."""
    sketch = np.random.default_rng(spec.seed).standard_normal(SKETCH_WIDTH)
    ulp = ULP * 2.0 ** (step / 10)
    away = ulp if spec.perturb == "ulp" else ulp * AWAY.get(spec.precision, 0.0) * (step > 0)
    sketch[("fp32", "bf16", "fp16", "tf32").index(spec.precision)] += away
    return sketch
