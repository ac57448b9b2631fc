"""master-weights."""

from typing import Any

from halfscale.analysis.claims._practices import costs, share_estimate, switch_on, wrong_ways
from halfscale.analysis.claims._verdict import Kind, Tables, Verdict, keys, percent, untestable
from halfscale.analysis.statistics import Mean, mean_with_interval, paired_gaps
from halfscale.study.claims import Claims

STATEMENT = "without FP32 master weights small updates are lost"
RULE = (
    "Arms whose weights are 16-bit numbers alone, held against the arm of their case in the same block: the share of the elements "
    "with a gradient whose weight an update leaves where it was, less that of the other arm, of runs that complete. Supported "
    "where its interval begins above `master_weights.lost` in every arm, on at least `blocks` blocks; refuted where it ends at or "
    "below in every arm; else inconclusive."
)
TABLES = ("practices", "practices_runs")
SHOWN = ("fig:practices", "tab:practices")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    rows = wrong_ways(tables, "half_weights")
    if not rows:
        return untestable("No arm trains without FP32 weights.", switch_on("half_weights"))
    limit, blocks = thresholds.master_weights.lost, thresholds.blocks
    lost = [(row, lost_beyond(tables, row)) for row in rows]
    known = [(row, share) for row, share in lost if share.n >= blocks]
    if not known:
        return Verdict(
            "inconclusive",
            "No two runs without FP32 weights complete beside the right way.",
            table="tables/practices_runs.csv",
            rows="; ".join(keys(case=row["case"], arm=row["arm"]) for row in rows),
            would_decide="runs that complete, as in BF16, on two seeds at least",
        )
    row, share = min(known, key=lambda each: each[1].low)
    kind: Kind = "inconclusive"
    if all(each.low > limit for _, each in known):
        kind = "supported"
    elif all(each.high <= limit for _, each in known):
        kind = "refuted"
    found = (
        f"`{row['arm']}` loses {percent(share.mean)} more of its updates than `{row['reference']}`, and {costs(row)}."
    )
    gone = [f"`{each['arm']}`" for each in rows if each["completed"] == 0 and each["diverged"]]
    found += f" {' and '.join(gone)} {'diverges' if len(gone) == 1 else 'diverge'}." if gone else ""
    return Verdict(
        kind,
        found,
        **share_estimate(share, "% of the updates", row),
        would_decide="more seeds" if kind == "inconclusive" else "",
    )


def lost_beyond(tables: Tables, row: dict[str, Any]) -> Mean:
    """Return the share of the updates that is lost beyond what the arm of the case loses in the same block."""
    runs = tables["practices_runs"]
    base = runs[(runs["case"] == row["case"]) & (runs["arm"] == row["reference"])].set_index("seed")["lost_updates"]
    own = row["runs"][row["runs"]["status"] == "completed"].set_index("seed")["lost_updates"]
    return mean_with_interval(paired_gaps(own.astype(float), base.astype(float)))
