"""Whether final losses are the reference's, from tables/equivalence.csv, whose verdicts have the margin of the config."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from halfscale.analysis.claims._arms import of_arms
from halfscale.analysis.claims._verdict import Tables, digits, keys

SAME = ("equivalent", "identical")
SWITCH_ON = "`experiments.equivalence` in the config"


def comparisons(tables: Tables, arms: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the comparisons of some arms with their reference; none where the study makes no such comparisons."""
    if "equivalence" not in tables:
        return []
    table = of_arms(tables["equivalence"], arms)
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def is_worse(row: dict[str, Any], blocks: int) -> bool:
    """Return whether a comparison shows a loss above the reference's that counts."""
    return row["verdict"] == "different" and row["gap"] > 0 and row["n"] >= blocks


def is_no_worse(row: dict[str, Any], blocks: int) -> bool:
    """Return whether a comparison shows that the loss is the reference's, or below it."""
    return (row["verdict"] in SAME or (row["verdict"] == "different" and row["gap"] < 0)) and row["n"] >= blocks


def weakest(rows: Iterable[dict[str, Any]], blocks: int) -> dict[str, Any]:
    """Return the comparison that speaks most against equivalence: a worse one, one that decides nothing, the largest gap."""
    return max(
        rows, key=lambda row: (is_worse(row, blocks), not is_no_worse(row, blocks), row["gap"] if row["n"] else 0.0)
    )


def gap_estimate(row: dict[str, Any]) -> dict[str, Any]:
    """Return a gap as the estimate of a verdict."""
    return {
        "estimate": float(row["gap"]),
        "low": float(row["low"]),
        "high": float(row["high"]),
        "interval": "95 % Student t interval over blocks",
        "unit": "nats",
        "n": int(row["n"]),
        "table": "tables/equivalence.csv",
        "rows": keys(workload=row["workload"], arm=row["arm"]),
    }


def told(row: dict[str, Any]) -> str:
    """Return what a comparison shows, as a sentence."""
    on = f"`{row['arm']}` on `{row['workload']}`"
    lost = row["of"] - row["n"]
    if row["verdict"] == "not comparable":
        why = f"{lost} of its {row['of']} blocks diverged" if lost else "one block is no comparison"
        return f"The loss of {on} cannot be compared: {why}."
    margin = "" if pd.isna(row["margin"]) else f" within the margin of {digits(row['margin'])} nats"
    match row["verdict"]:
        case "identical":
            return f"The final loss of {on} is FP32's in every block, to the last digit."
        case "equivalent":
            return f"The final loss of {on}, {apart(row)}, is shown to be the same{margin}."
        case "different":
            return f"The final loss of {on} differs from FP32's: it lies {apart(row)}."
    return f"The final loss of {on}, {apart(row)}, is shown neither to be the same{margin} nor to differ."


def apart(row: dict[str, Any]) -> str:
    """Return how far a final loss lies from FP32's, as `0.02 nats above FP32's`."""
    return f"{digits(abs(row['gap']))} nats {'below' if row['gap'] < 0 else 'above'} FP32's"


def more_seeds(row: dict[str, Any]) -> str:
    """Return what would decide a comparison that is not decided."""
    if row["verdict"] == "not comparable" and row["of"] > row["n"]:
        return "runs that do not diverge"
    if pd.isna(row["smallest_margin"]) or row["verdict"] != "inconclusive":
        return "more seeds"
    return (
        f"more seeds: {row['n']} can show no margin below {digits(row['smallest_margin'])} nats on `{row['workload']}`"
    )
