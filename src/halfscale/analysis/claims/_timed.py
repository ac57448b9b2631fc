"""Measured speed-ups, from tables/throughput.csv. Predicted ones and those of an emulation are no evidence."""

from typing import Any

import pandas as pd

from halfscale.analysis.claims._verdict import Tables, keys

HALF = ("bf16", "fp16")


def device_of(tables: Tables) -> str:
    """Return the device that the study's runs were computed on: cpu or cuda."""
    return str(tables["runs"]["device"].iloc[0])


def fastest(tables: Tables) -> pd.DataFrame:
    """Return of each workload that was timed the 16-bit variant with the largest speed-up over strict FP32.

    Column units: how much faster the device's 16-bit matrix product is than that in FP32. What a CPU without the units was
    asked to time all the same, or computes in FP32, is left out.
    """
    if "throughput" not in tables or bool(tables["settings"]["emulated"].any()):
        return pd.DataFrame({"workload": []})
    table = tables["throughput"]
    timed = table[(table["status"] == "timed") & table["speedup"].notna() & table["precision"].isin(HALF)]
    best = timed.loc[timed.groupby("workload", sort=False)["speedup"].idxmax()] if len(timed) else timed
    rates = table[table["precision"] == "fp32"].groupby("workload")["gemm_tflops"].max()
    return best.assign(units=best["gemm_tflops"] / best["workload"].map(rates).astype(float))


def speedup(row: Any) -> dict[str, Any]:
    """Return a speed-up as the estimate of a verdict."""
    return {
        "estimate": float(row["speedup"]),
        "low": float(row["speedup_low"]),
        "high": float(row["speedup_high"]),
        "interval": "95 % bootstrap interval over blocks",
        "unit": "times FP32's speed",
        "n": int(row["blocks"]),
        "table": "tables/throughput.csv",
        "rows": keys(workload=row["workload"], variant=row["variant"]),
    }
