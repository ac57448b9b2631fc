"""Runs that have not yet become unstable, by step: tables/survival.csv, the Kaplan-Meier curve of each arm."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.duration.survfunc import SurvfuncRight

from halfscale.analysis.collect import read_csv
from halfscale.analysis.instability import CAUSES


def read_survival_table(folder: Path) -> pd.DataFrame:
    """Read a study's tables/survival.csv."""
    return read_csv(folder / "tables" / "survival.csv")


def survival_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the Kaplan-Meier estimate of each workload and arm, in the order of the runs.

    One row for the start and for every number of steps after which a run became unstable or ended without having done
    so, which censors it. steps: run until then, the unstable one included; at_risk: runs that were stable before it;
    by cause, how many became unstable; censored: how many ended; surviving: estimated share of runs that stay stable for
    longer, and surviving_se its standard error (Greenwood), null where no run is left.

    Args:
        runs: as read_runs gives them.
    """
    curves = [
        curve(own).assign(workload=str(workload), arm=str(arm))
        for (workload, arm), own in runs.groupby(["workload", "arm"], sort=False)
    ]
    table = pd.concat(curves, ignore_index=True)
    return table[["workload", "arm", *(name for name in table if name not in ("workload", "arm"))]]


def curve(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one arm."""
    unstable = runs["instability"].notna().to_numpy()
    times = np.where(unstable, runs["first_instability"].fillna(0) + 1, runs["steps"]).astype(int)
    estimate = SurvfuncRight(times, unstable.astype(int))
    surviving = {0: (1.0, 0.0)} | {
        int(time): (float(share), float(error))
        for time, share, error in zip(estimate.surv_times, estimate.surv_prob, estimate.surv_prob_se, strict=True)
    }
    rows: list[dict[str, Any]] = []
    last = surviving[0]
    for time in sorted({0, *times.tolist()}):
        here = times == time
        last = surviving.get(time, last)
        rows.append(
            {
                "steps": time,
                "at_risk": int((times >= time).sum()),
                **{cause: int((runs["instability"] == cause).to_numpy()[here].sum()) for cause in CAUSES},
                "censored": int((here & ~unstable).sum()),
                "surviving": last[0],
                "surviving_se": last[1],
            }
        )
    return pd.DataFrame(rows)
