"""bf16-no-loss."""

from halfscale.analysis.claims._arms import plain_arms
from halfscale.analysis.claims._gaps import (
    SWITCH_ON,
    comparisons,
    gap_estimate,
    is_no_worse,
    is_worse,
    more_seeds,
    told,
    weakest,
)
from halfscale.analysis.claims._verdict import Tables, Verdict, untestable
from halfscale.study.claims import Claims

STATEMENT = "BF16 loses no accuracy"
RULE = (
    "The final training loss of BF16 arms without loss scaling against FP32's in the same block, by the margin of "
    "`experiments.equivalence`: supported where every workload's is equivalent, identical or lower, on at least `blocks` blocks; "
    "refuted where any is different and higher; else inconclusive."
)
TABLES = ("arms", "equivalence")
SHOWN = ("fig:equivalence", "tab:equivalence")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    arms = plain_arms(tables, precision="bf16", loss_scaling="none")
    if arms.empty:
        return untestable("The study has no arm in BF16.", "an arm with `precision: bf16`")
    rows = comparisons(tables, arms)
    if not rows:
        return untestable("Losses are not tested for equivalence.", SWITCH_ON)
    row = weakest(rows, thresholds.blocks)
    if is_worse(row, thresholds.blocks):
        return Verdict("refuted", told(row), **gap_estimate(row))
    if all(is_no_worse(each, thresholds.blocks) for each in rows):
        every = f" So it is on every workload, of which there {count(len(rows))}." if len(rows) > 1 else ""
        return Verdict("supported", told(row) + every, **gap_estimate(row))
    return Verdict("inconclusive", told(row), **gap_estimate(row), would_decide=more_seeds(row))


def count(number: int) -> str:
    return "is one" if number == 1 else f"are {number}"
