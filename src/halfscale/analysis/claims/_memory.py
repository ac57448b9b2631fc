"""The memory of a step in 16 bits over that in FP32, from tables/memory.csv: counted, and so without an interval over blocks."""

import math
from typing import Any

import pandas as pd

from halfscale.analysis.claims._verdict import Tables, keys

ACCOUNTING = "cuda"
"""What CUDA's autocast keeps is what the claims are about; it is predicted on any machine."""


def half_ratios(tables: Tables, *, largest: bool) -> pd.DataFrame:
    """Return the 16-bit rows at each case's largest or smallest batch, with `saved_ratio`, what is kept for the backward
    pass over what FP32 keeps."""
    if "memory" not in tables:
        return pd.DataFrame({"ratio": []})
    table = tables["memory"]
    table = table[table["accounting"] == ACCOUNTING]
    base = table[table["precision"] == "fp32"].set_index(["case", "batch_size"])["saved"]
    half = table[table["precision"].isin(["bf16", "fp16"]) & table["ratio"].notna()]
    end = half.groupby("case")["batch_size"].transform("max" if largest else "min")
    half = half[half["batch_size"] == end]
    kept = [base.get(key, float("nan")) for key in zip(half["case"], half["batch_size"], strict=True)]
    return half.assign(saved_ratio=half["saved"] / pd.Series(kept, index=half.index, dtype=float))


def share_of_fp32(row: Any, low: float, high: float, cases: int) -> dict[str, Any]:
    """Return a ratio as the estimate of a verdict, with the range over the cases."""
    return {
        "estimate": 100 * float(row["ratio"]),
        "low": 100 * float(low) if cases > 1 else math.nan,
        "high": 100 * float(high) if cases > 1 else math.nan,
        "interval": "range of the cases" if cases > 1 else "counted exactly",
        "unit": "% of FP32's peak",
        "n": cases,
        "table": "tables/memory.csv",
        "rows": keys(
            case=row["case"], accounting=ACCOUNTING, precision=row["precision"], batch_size=int(row["batch_size"])
        ),
    }


def counted(cases: int) -> str:
    return "1 case" if cases == 1 else f"{cases} cases"
