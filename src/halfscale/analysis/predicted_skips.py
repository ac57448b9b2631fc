"""What the operating windows predict of the study's own FP16 runs, beside what the runs did."""

import math
from typing import Any

import pandas as pd


def prediction_table(windows: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a completed dynamic FP16 run of a workload that was probed.

    predicted_skips: calibration takes max(0, ceil((log2 S0 - log2 S*) / -log2 b)) skipped steps from the initial scale
    S0 down to S*, the upper end of the window at the initial weights, with backoff factor b; null where those were not
    probed, and where S0 lies above an upper end that is open. scale, predicted_scale: exponents of the scale after the
    last step and of the window's upper end there; the latter null where it is open.

    With gradients accumulated, the window is that of the first micro-batch of a step, and a run lives with all of them.

    Args:
        windows: tables/probe.csv.
        runs: tables/runs.csv, of the arms whose gradients are computed as those that were probed.
    """
    scaled = runs[(runs["precision"] == "fp16") & (runs["loss_scaling"] == "dynamic") & (runs["status"] == "completed")]
    rows: list[dict[str, Any]] = []
    for run in ({str(name): value for name, value in row.items()} for row in scaled.to_dict("records")):
        own = windows[windows["workload"] == run["workload"]].sort_values("step")
        if own.empty:
            continue
        start, end = own[own["step"] == 0], own[own["step"] == run["steps"]]
        rows.append(
            {
                "workload": run["workload"],
                "arm": run["arm"],
                "seed": run["seed"],
                "predicted_skips": calibration_skips(run, start),
                "skips": run["skipped_calibration"],
                "predicted_scale": None if end.empty or end["high_open"].iloc[0] else upper_end(end),
                "scale": math.log2(run["final_scale"]),
                "growth": math.log2(run["growth_factor"]),
            }
        )
    columns = ["workload", "arm", "seed", "predicted_skips", "skips", "predicted_scale", "scale", "growth"]
    return pd.DataFrame(rows, columns=columns).astype({"predicted_skips": "Int64", "predicted_scale": "Int64"})


def calibration_skips(run: dict[str, Any], window: pd.DataFrame) -> int | None:
    """Return the skipped steps that bring a scale down into a window; None where that is not known."""
    high = upper_end(window)
    if high is None:
        return None
    above = math.log2(run["init_scale"]) - high
    if above > 0 and window["high_open"].iloc[0]:
        return None
    return max(0, math.ceil(above / -math.log2(run["backoff_factor"])))


def upper_end(window: pd.DataFrame) -> int | None:
    """Return the exponent of a window's upper end; None where there is no row, or no window."""
    return None if window.empty or pd.isna(window["high"].iloc[0]) else int(window["high"].iloc[0])
