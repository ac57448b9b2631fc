"""Probed gradients that nobody took: curves whose windows are known."""

from pathlib import Path

import pandas as pd

from halfscale.analysis.collect import read_runs, write_csv
from halfscale.analysis.predicted_flushed import COLUMNS
from halfscale.analysis.predicted_skips import prediction_table
from halfscale.analysis.probe import layer_table, scale_table, window_table

EXPONENTS = range(-4, 25, 4)


def rows(step: int, parameter: str, low: int, high: int, elements: int = 100) -> list[dict[str, object]]:
    """Return a gradient whose error is 0.01 inside a window and doubles with each bit below it."""
    shared = {
        "step": step,
        "parameter": parameter,
        "elements": elements,
        "norm": 1.0,
        "largest": 0.5,
        "cosine": 1.0,
        "true_zero": 10,
        "subnormal": 0,
    }
    found: list[dict[str, object]] = [
        {**shared, "precision": "fp32", "exponent": None, "overflow": False, "error": 0.0, "flushed": 0},
        {**shared, "precision": "bf16", "exponent": None, "overflow": False, "error": 0.08, "flushed": 0},
    ]
    for exponent in EXPONENTS:
        over = exponent > high
        error = None if over else 0.01 * 2.0 ** max(0, low - exponent)
        flushed = 0 if exponent >= low else min(elements, low - exponent)
        found.append(
            {**shared, "precision": "fp16", "exponent": exponent, "overflow": over, "error": error, "flushed": flushed}
        )
    return found


def make_gradients(end: int = 10) -> pd.DataFrame:
    """Return two layers that overlap at the start, and have no scale in common after `end` steps."""
    start = [*rows(0, "", 0, 16), *rows(0, "first", -4, 16, 60), *rows(0, "second", 0, 20, 40)]
    later = [*rows(end, "", 8, 12), *rows(end, "first", -4, 8, 60), *rows(end, "second", 16, 20, 40)]
    return pd.DataFrame([*start, *later]).astype({"exponent": "Int64"})


def write_tables_of_a_probe(folder: Path) -> None:
    """Give a study that has its table of runs what a probe of each of its workloads would."""
    runs = read_runs(folder)
    ends = runs.groupby("workload", sort=False)["steps"].first()
    probes = {str(workload): make_gradients(int(steps)) for workload, steps in ends.items()}
    windows = pd.concat([window_table(name, each) for name, each in probes.items()], ignore_index=True)
    write_csv(folder / "tables/probe.csv", windows)
    for table, make in (("probe_scales", scale_table), ("probe_layers", layer_table)):
        write_csv(folder / f"tables/{table}.csv", pd.concat([make(name, each) for name, each in probes.items()]))
    write_csv(folder / "tables/predicted_skips.csv", prediction_table(windows, runs))
    flushed = [(workload, "fp16", 16, 1000, 0.25, 0.26) for workload in probes]
    write_csv(folder / "tables/predicted_flushed.csv", pd.DataFrame(flushed, columns=COLUMNS))
