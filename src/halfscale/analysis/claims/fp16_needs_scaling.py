"""fp16-needs-scaling."""

from typing import Any

import pandas as pd

from halfscale.analysis.claims._arms import plain_arms
from halfscale.analysis.claims._gaps import SWITCH_ON, comparisons, gap_estimate, is_no_worse, more_seeds, told, weakest
from halfscale.analysis.claims._verdict import Tables, Verdict, percent, untestable
from halfscale.analysis.samples import flushed_share
from halfscale.study.claims import Claims

STATEMENT = "FP16 needs loss scaling, since gradients underflow without it"
RULE = (
    "The final training loss of FP16 arms without loss scaling against FP32's in the same block, by the margin of "
    "`experiments.equivalence`: supported where on any workload the interval of the gap lies above the margin, on at least "
    "`blocks` blocks, or at least as many runs diverge and none of FP32's does; refuted where every workload's is equivalent, "
    "identical or lower; else inconclusive. The share of the gradient that underflows is told beside it."
)
TABLES = ("arms", "equivalence", "exponents")
SHOWN = ("fig:equivalence", "tab:equivalence")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    arms = plain_arms(tables, precision="fp16", loss_scaling="none")
    if arms.empty:
        return untestable(
            "The study has no arm in FP16 without loss scaling.",
            "an arm with `precision: fp16` and `loss_scaling: {kind: none}`",
        )
    rows = comparisons(tables, arms)
    if not rows:
        return untestable("Losses are not tested for equivalence.", SWITCH_ON)
    beside = underflow(tables)
    harmed = [row for row in rows if row["n"] >= thresholds.blocks and row["low"] > row["margin"]]
    if harmed:
        row = max(harmed, key=lambda each: each["low"])
        return Verdict("supported", f"{told(row)} {beside}", **gap_estimate(row))
    for row in rows:
        if diverges(tables, row, thresholds.blocks):
            found = (
                f"{row['of'] - row['n']} of {row['of']} runs of `{row['arm']}` on `{row['workload']}` diverge. {beside}"
            )
            return Verdict("supported", found, **gap_estimate(row))
    row = weakest(rows, thresholds.blocks)
    if all(is_no_worse(each, thresholds.blocks) for each in rows):
        return Verdict("refuted", f"{told(row)} {beside}", **gap_estimate(row))
    return Verdict("inconclusive", f"{told(row)} {beside}", **gap_estimate(row), would_decide=more_seeds(row))


def diverges(tables: Tables, row: dict[str, Any], blocks: int) -> bool:
    """Return whether runs diverge without loss scaling that do not in FP32."""
    arms = tables["arms"].set_index(["workload", "arm"])
    own, base = arms.loc[(row["workload"], row["arm"])], arms.loc[(row["workload"], row["reference"])]
    return bool(own["diverged"] >= blocks and base["diverged"] == 0)


def underflow(tables: Tables) -> str:
    """Return how much of the reference's gradient is zero in FP16 at a scale of 1, the most of any sampled step."""
    exponents = tables.get("exponents", pd.DataFrame(columns=["workload", "step"]))
    places = exponents[["workload", "step"]].drop_duplicates().itertuples(index=False)
    shares = {(str(where), int(step)): flushed_share(exponents, str(where), int(step)) for where, step in places}
    known = {place: share for place, share in shares.items() if share is not None}
    if not known:
        return ""
    (workload, step), most = max(known.items(), key=lambda item: item[1])
    return f"Unscaled, {percent(most)} of the gradient's elements are zero in FP16 on `{workload}` at step {step}, at the most."
