"""Wrong ways, from tables/practices.csv and tables/practices_runs.csv."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from halfscale.analysis.claims._verdict import Tables, digits, keys
from halfscale.analysis.statistics import Mean


def wrong_ways(tables: Tables, pitfall: str) -> list[dict[str, Any]]:
    """Return the rows of practices.csv of the arms with a pitfall, each with the rows of its runs as `runs`."""
    if "practices" not in tables or "practices_runs" not in tables:
        return []
    table, runs = tables["practices"], tables["practices_runs"]
    rows = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
    return [
        row | {"runs": runs[(runs["case"] == row["case"]) & (runs["arm"] == row["arm"])]}
        for row in rows
        if row["pitfall"] == pitfall
    ]


def switch_on(pitfall: str) -> str:
    """Return what would put a wrong way to the test."""
    return f"an arm with `pitfall: {pitfall}` in a case of `experiments.practices`"


def compared(row: dict[str, Any]) -> int:
    """Return the blocks that a wrong way has a cost in: those in which the right way completes too."""
    return int(row["runs"]["cost"].notna().sum())


def cost_estimate(row: dict[str, Any]) -> dict[str, Any]:
    """Return the cost of a wrong way as the estimate of a verdict."""
    return {
        "estimate": float(row["cost"]),
        "low": float(row["cost_low"]),
        "high": float(row["cost_high"]),
        "interval": "95 % Student t interval over blocks",
        "unit": "nats",
        "n": compared(row),
        "table": "tables/practices.csv",
        "rows": keys(case=row["case"], arm=row["arm"]),
    }


def share_estimate(share: Mean, unit: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a share of steps or updates, the mean over the runs of an arm, as the estimate of a verdict."""
    return {
        "estimate": 100 * share.mean,
        "low": 100 * share.low,
        "high": 100 * share.high,
        "interval": "95 % Student t interval over blocks",
        "unit": unit,
        "n": share.n,
        "table": "tables/practices_runs.csv",
        "rows": keys(case=row["case"], arm=row["arm"]),
    }


def costs(row: dict[str, Any]) -> str:
    """Return what a wrong way costs, as it follows on its name, and how many of its runs have diverged and so have no cost."""
    diverged = f"{row['diverged']} of its {row['n']} runs diverged" if row["diverged"] else ""
    if pd.isna(row["cost"]):
        return "has no final loss to compare" + (f": {diverged}" if diverged else "")
    ends = f"ends {digits(abs(row['cost']))} nats {'above' if row['cost'] > 0 else 'below'} `{row['reference']}`"
    return ends + (f" where it completes ({diverged})" if diverged else "")


def within(row: dict[str, Any], margin: float) -> bool:
    """Return whether a cost is shown to be no larger than a margin, either way."""
    return bool(row["cost_low"] >= -margin and row["cost_high"] <= margin)


def beyond(row: dict[str, Any], margin: float) -> bool:
    """Return whether a cost is shown to be larger than a margin, either way."""
    return bool(row["cost_low"] > margin or row["cost_high"] < -margin)
