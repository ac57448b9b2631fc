"""The smoke study's losses and scales, as recorded: golden/<workload>.json, and the platform that they belong to."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.machine import devices, provenance

GOLDEN = Path(__file__).parent / "golden"


def platform() -> dict[str, Any]:
    """What decides the last bits of a CPU's results: torch's version and the vector units that its kernels use."""
    return {
        "torch": provenance.versions("torch")["torch"],
        "vendor": devices.cpu_information().get("vendor_id", "unknown"),
        "cpu_capability": devices.cpu_capability(),
        "cpu_features": devices.cpu_features(),
    }


def observed(traces: pd.DataFrame, workload: str) -> dict[str, dict[str, list[float | None]]]:
    """Return loss and scale by step of each run of a workload, by arm and seed."""
    rows = traces[traces["workload"] == workload]
    runs = {}
    for (arm, seed), trace in rows.groupby(["arm", "seed"], observed=True, sort=False):
        runs[f"{arm} seed {seed}"] = {
            column: [None if pd.isna(value) else float(value) for value in trace[column]]
            for column in ("loss", "scale")
        }
    return runs


def read(workload: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{workload}.json").read_text(encoding="utf-8"))


def record(traces: pd.DataFrame) -> None:
    """Write what was observed as the golden values."""
    for workload in traces["workload"].unique():
        golden = {"platform": platform(), "runs": observed(traces, workload)}
        text = json.dumps(golden, allow_nan=False).replace('], "', '],\n  "').replace("}, ", "},\n ")
        (GOLDEN / f"{workload}.json").write_text(text + "\n", encoding="utf-8")
