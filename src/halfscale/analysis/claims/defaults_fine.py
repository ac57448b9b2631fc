"""defaults-fine."""

from typing import Any

import pandas as pd

from halfscale.analysis.claims._arms import STOCK, of_arms, plain_arms
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
from halfscale.analysis.claims._verdict import Tables, Verdict, percent, untestable
from halfscale.analysis.statistics import Mean, mean_with_interval
from halfscale.study.claims import Claims

STATEMENT = "GradScaler's defaults rarely need tuning, and a growth interval of 10 would cost a tenth of the steps"
RULE = (
    "FP16 arms with PyTorch's defaults must be equivalent to FP32 by the margin of `experiments.equivalence`, on at least "
    "`blocks` blocks and in runs longer than the growth interval; and the share of steps that a settled scale skips, taken "
    "from dynamic FP16 arms with growth intervals of half to twice `defaults_fine.interval` and carried over to that, must lie "
    "within a factor `defaults_fine.factor` of `defaults_fine.cost`. Supported where the first holds on every workload and the "
    "interval of the second lies within the band; refuted where a loss is different and higher, or that interval lies outside; "
    "else inconclusive."
)
TABLES = ("arms", "runs", "equivalence")
SHOWN = ("fig:equivalence", "tab:equivalence")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    stock = plain_arms(tables, precision="fp16", loss_scaling="dynamic", **STOCK)
    if stock.empty:
        return untestable("No arm has GradScaler's defaults.", "an arm with `precision: fp16`, `loss_scaling` left out")
    rows = comparisons(tables, stock)
    if not rows:
        return untestable("Losses are not tested for equivalence.", SWITCH_ON)
    own = thresholds.defaults_fine
    cost = cost_of_short(tables, own.interval)
    band = (own.cost / own.factor, own.cost * own.factor)
    row = weakest(rows, thresholds.blocks)
    found = f"{told(row)} {told_cost(cost, own.interval)}"
    known = cost.n >= thresholds.blocks and cost.low == cost.low
    if is_worse(row, thresholds.blocks) or (known and (cost.high < band[0] or cost.low > band[1])):
        return Verdict("refuted", found, **gap_estimate(row))
    longest = int(of_arms(tables["runs"], stock)["steps"].max())
    if longest <= STOCK["growth_interval"]:
        found += f" But in runs of {longest} steps a growth interval of 2000 has not passed once."
        return Verdict("inconclusive", found, **gap_estimate(row), would_decide="runs of some growth intervals")
    if not all(is_no_worse(each, thresholds.blocks) for each in rows):
        return Verdict("inconclusive", found, **gap_estimate(row), would_decide=more_seeds(row))
    if known and band[0] <= cost.low and cost.high <= band[1]:
        return Verdict("supported", found, **gap_estimate(row))
    return Verdict("inconclusive", found, **gap_estimate(row), would_decide="more runs with short growth intervals")


def cost_of_short(tables: Tables, interval: int) -> Mean:
    """Return the share of steps that a settled scale would skip at a growth interval, the mean over blocks.

    Of K skipped steps and G growths in T steps, calibration left out, N (G - K) steps went into a net rise of the scale, which
    ends some time: a settled scale skips K / (T - N (G - K)), and N + 1 times that does not depend on N. Runs count in which
    a growth interval of steps is left.
    """
    arms = plain_arms(tables, precision="fp16", loss_scaling="dynamic")
    arms = arms[
        arms["growth_interval"].between(interval / 2, 2 * interval)
        & (arms["growth_factor"] * arms["backoff_factor"] == 1)
    ]
    runs = of_arms(tables["runs"], arms)
    runs = runs[runs["status"] == "completed"]
    skipped = runs["skipped"] - runs["skipped_calibration"]
    rising = runs["growth_interval"] * (runs["growths"] - skipped).clip(lower=0)
    left = runs["steps"] - runs["skipped_calibration"] - rising
    enough = left > runs["growth_interval"]
    share = skipped[enough] / left[enough] * (runs["growth_interval"][enough] + 1) / (interval + 1)
    by_block: Any = share.astype(float).groupby(runs["seed"][enough]).mean()
    return mean_with_interval(pd.Series(by_block, dtype=float))


def told_cost(cost: Mean, interval: int) -> str:
    """Return what a growth interval would cost, as a sentence."""
    if not cost.n:
        return f"No arm tells what a growth interval of {interval} would cost."
    spread = f" ({percent(cost.low)} to {percent(cost.high)})" if cost.low == cost.low else ""
    return f"A settled scale with a growth interval of {interval} would skip {percent(cost.mean)}{spread} of its steps."
