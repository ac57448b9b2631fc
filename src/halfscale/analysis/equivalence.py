"""Are final losses the same as the reference's? tables/equivalence.csv and its LaTeX.

A comparison is that of an arm with its reference, over the gaps between their final losses in the same block. The margin
within which a gap counts as none is fixed in the config. The verdict on a comparison is the first of these that holds:

not comparable: fewer than two blocks, or a run of either diverged: what is left of a comparison then says nothing of the
    runs that are missing, and is called neither equivalent nor different;
identical: the final losses are the same number in every block, which takes no test;
equivalent: two one-sided t tests show the mean gap to be within the margin, at level alpha after Holm's correction;
different: a two-sided t test shows the mean gap not to be zero, at level alpha after Holm's correction;
inconclusive: neither.

A gap that is shown to be within the margin and also not to be zero is equivalent: it is a difference that does not count.
Holm's correction is over the comparisons of a workload that are tested. Arms that are the same runs are one comparison.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from statsmodels.stats.multitest import multipletests

from halfscale.analysis.collect import read_csv, read_plan, read_runs, write_csv
from halfscale.analysis.latex import Column, breakable, escape, interval, longtable, number
from halfscale.analysis.references import references
from halfscale.analysis.shown import Shown, repeats
from halfscale.analysis.statistics import bca_interval, mean_with_interval
from halfscale.analysis.tables import MOST_ROWS, only
from halfscale.analysis.tost import smallest_margin, tost
from halfscale.errors import UserError
from halfscale.study.equivalence import Equivalence
from halfscale.study.runs import Roster
from halfscale.study.whole import write_text

Verdict = Literal["identical", "equivalent", "different", "inconclusive", "not comparable"]

COLUMNS = [
    "workload",
    "arm",
    "reference",
    "n",
    "of",
    "gap",
    "low",
    "high",
    "bca_low",
    "bca_high",
    "tost_low",
    "tost_high",
    "margin",
    "p_tost",
    "p_holm",
    "p_different",
    "p_different_holm",
    "smallest_margin",
    "smallest_margin_sd",
    "verdict",
]


class NoEquivalenceError(UserError, ValueError):
    """A study whose config has no margin."""


def write_equivalence_tables(folder: Path) -> None:
    """Write tables/equivalence.csv and tables/equivalence.tex of a study that has a margin and whose tables of runs are written.

    Raises:
        RecordError: plan.json is missing or no plan.
        NoEquivalenceError: the study's config has no experiments.equivalence.
        OSError: tables/runs.csv or tables/gaps.csv is missing.
    """
    plan, runs = read_plan(folder), read_runs(folder)
    table = equivalence_table(plan, runs, read_csv(folder / "tables" / "gaps.csv"))
    write_csv(folder / "tables" / "equivalence.csv", table)
    names = {str(workload): own["arm"].tolist() for workload, own in table.groupby("workload", sort=False)}
    shown = Shown.choose(names, MOST_ROWS, plan.arms, repeats(runs, plan.study.reference))
    note = shown.sentence("tables/equivalence.csv has all")
    write_text(
        folder / "tables" / "equivalence.tex", equivalence_tex(only(table, shown), settings_of(plan).alpha, note)
    )


def settings_of(plan: Roster) -> Equivalence:
    """Return what a study takes for equivalent.

    Raises:
        NoEquivalenceError: its config has no experiments.equivalence.
    """
    if plan.study.experiments.equivalence is None:
        raise NoEquivalenceError("the study's config has no experiments.equivalence, and so no margin")
    return plan.study.experiments.equivalence


def read_equivalence_table(folder: Path) -> pd.DataFrame:
    """Read a study's tables/equivalence.csv; what is empty in it is null."""
    return read_csv(folder / "tables" / "equivalence.csv")


def equivalence_table(plan: Roster, runs: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    """Return one row a comparison, in the order of the config: every arm that is not the same runs as its reference.

    n, of: blocks in which both completed, of all. gap: mean over the n, nats; low, high: its 1 - alpha interval by
    Student's t, bca_low, bca_high: by the bootstrap, null of too few blocks; tost_low, tost_high: its 1 - 2 alpha
    interval, which lies within the margin where a single TOST shows equivalence. margin: nats, null where it depends on
    a standard deviation that one seed does not have. p_tost, p_different: of TOST and of the two-sided test, and
    p_holm, p_different_holm after Holm's correction; null where nothing is tested. smallest_margin: what n blocks with
    the standard deviation of these would show with 80 % power of a true gap of zero, nats; smallest_margin_sd: the same
    in units of that standard deviation, which depends on n alone.

    Args:
        plan: of the study.
        runs: as read_runs gives them.
        gaps: of tables/gaps.csv.

    Raises:
        NoEquivalenceError: the study's config has no experiments.equivalence.
    """
    settings = settings_of(plan)
    reference_of = references(plan.arms, plan.study.reference)
    same = repeats(runs, plan.study.reference)
    losses = {(str(where), str(arm)): own["final_loss"] for (where, arm), own in runs.groupby(["workload", "arm"])}
    rows: list[dict[str, Any]] = []
    for (workload, arm), own in gaps.groupby(["workload", "arm"], sort=False):
        where, name, reference = str(workload), str(arm), reference_of[str(arm)]
        if same.get((where, name), name) != same.get((where, reference), reference):
            margin = margin_of(settings, where, losses[where, reference].to_numpy(float))
            names = {"workload": where, "arm": name, "reference": reference}
            rows.append(names | compare(own["gap"].to_numpy(float), margin, settings.alpha))
    table = correct(pd.DataFrame(rows, columns=COLUMNS), same)
    table["verdict"] = [verdict(row, settings.alpha) for row in table.to_dict("records")]
    return table


def margin_of(settings: Equivalence, workload: str, losses: np.ndarray) -> float:
    """Return the margin of a workload in nats; NaN where it depends on the standard deviation of fewer than two losses.

    Args:
        settings: of the study.
        workload: its name.
        losses: final losses of the reference over seeds.
    """
    margin = settings.margin_of.get(workload, settings.margin)
    finite = losses[np.isfinite(losses)]
    bounds = [] if margin.nats is None else [margin.nats]
    if margin.reference_sd is not None:
        bounds.append(margin.reference_sd * float(np.std(finite, ddof=1)) if len(finite) > 1 else math.nan)
    return min(bounds) if not any(map(math.isnan, bounds)) else math.nan


def compare(gaps: np.ndarray, margin: float, alpha: float) -> dict[str, Any]:
    """Return what one comparison came to, without what depends on the others.

    Args:
        gaps: a block each, nats; NaN where a run diverged.
        margin: nats; NaN or 0 where there is none.
        alpha: level of the tests.
    """
    estimate = mean_with_interval(gaps, 1 - alpha)
    narrow = mean_with_interval(gaps, 1 - 2 * alpha)
    bca_low, bca_high = bca_interval(gaps, 1 - alpha)
    in_sd = smallest_margin(estimate.n, alpha)
    finite = gaps[np.isfinite(gaps)]
    row: dict[str, Any] = {
        "n": estimate.n,
        "of": estimate.of,
        "gap": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "bca_low": bca_low,
        "bca_high": bca_high,
        "tost_low": narrow.low,
        "tost_high": narrow.high,
        "margin": margin,
        "p_tost": math.nan,
        "p_different": math.nan,
        "smallest_margin": in_sd * float(np.std(finite, ddof=1)) if estimate.n > 1 else math.nan,
        "smallest_margin_sd": in_sd,
    }
    if comparable(row) and (finite != 0).any():
        found = tost(finite, margin)
        row |= {"p_tost": found.equivalent, "p_different": found.different}
    return row


def comparable(row: Mapping[Any, Any]) -> bool:
    """Return whether a comparison can have a verdict: two blocks at least, nothing diverged, and a margin."""
    return bool(row["n"] > 1 and row["n"] == row["of"] and row["margin"] > 0)


def correct(table: pd.DataFrame, same: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """Return the table with p values after Holm's correction over the comparisons of each workload.

    Args:
        table: as compare gives its rows.
        same: as repeats gives it; what is the same runs as another arm is not counted again.
    """
    corrected = table.copy()
    kept = [same.get(key, key[1]) for key in zip(table["workload"], table["arm"], strict=True)]
    once = table.assign(kept=kept).drop_duplicates(["workload", "kept"])
    for plain, holm in (("p_tost", "p_holm"), ("p_different", "p_different_holm")):
        found: dict[tuple[str, str], float] = {}
        for workload, own in once[once[plain].notna()].groupby("workload", sort=False):
            values = multipletests(own[plain].to_numpy(float), method="holm")[1]
            found |= {(str(workload), arm): float(p) for arm, p in zip(own["kept"], values, strict=True)}
        corrected[holm] = [found.get(key, math.nan) for key in zip(table["workload"], kept, strict=True)]
    return corrected[COLUMNS]


def verdict(row: Mapping[Any, Any], alpha: float) -> Verdict:
    """Return the verdict on one comparison."""
    if not comparable(row):
        return "not comparable"
    if math.isnan(row["p_tost"]):
        return "identical"
    if row["p_holm"] < alpha:
        return "equivalent"
    return "different" if row["p_different_holm"] < alpha else "inconclusive"


def equivalence_tex(table: pd.DataFrame, alpha: float, note: str = "") -> str:
    """Return the table of comparisons; `note` ends its caption."""
    resampled = table["bca_low"].notna().any()
    confidence = (1 - alpha, 1 - 2 * alpha)
    usual, narrow = (rf"{number_of(100 * share)}\,\%" for share in confidence)
    columns = [
        Column("Arm", "", rf">{{\raggedright\arraybackslash}}p{{{1.9 if resampled else 2.6}cm}}"),
        Column("$n/N$", "", "r"),
        Column("Gap", "(nats)", "r"),
        Column(f"{narrow} interval", "(nats)", "r"),
        *([Column(f"{usual} BCa", "(nats)", "r")] if resampled else []),
        Column("$p$", "(equiv.)", "r"),
        Column("$p$", "(diff.)", "r"),
        Column("Reach", "(nats)", "r"),
        Column("Verdict", "", r">{\raggedright\arraybackslash}p{1.8cm}"),
    ]

    def cells(row: Any) -> list[str]:
        return [
            breakable(row.arm),
            f"${row.n}/{row.of}$",
            number(row.gap),
            interval(row.tost_low, row.tost_high),
            *([interval(row.bca_low, row.bca_high)] if resampled else []),
            p_value(row.p_holm),
            p_value(row.p_different_holm),
            number(row.smallest_margin),
            escape(row.verdict),
        ]

    groups = [
        (f"{escape(str(workload))}, {margins(own)}", [cells(row) for row in own.itertuples()])
        for workload, own in table.groupby("workload", sort=False)
    ]
    caption = (
        "Equivalence to the reference. Gap: final loss less that of the reference in the same block, mean over the $n$ blocks of $N$ in "
        f"which both completed, with its {narrow} Student $t$ interval, the one that belongs to two one-sided tests at "
        f"level {number_of(alpha)}"
        + (f"; {usual} BCa: its bootstrap interval" if resampled else "")
        + ". $p$ (equiv.): of these tests against the margin; $p$ (diff.): of a two-sided $t$ test against "
        "zero; both after Holm's correction over the comparisons of a workload, -- where nothing is tested. Reach: "
        "the smallest margin that as many blocks, with gaps that vary as these do, show with 80\\,\\% power if the true gap is zero."
    )
    return longtable(columns, groups, caption=caption + (f" {escape(note)}" if note else ""), label="tab:equivalence")


def margins(table: pd.DataFrame) -> str:
    """Return the margin of a workload, or the range of them where the arms have references of their own."""
    low, high = number(float(table["margin"].min())), number(float(table["margin"].max()))
    return f"margin {low} nats" if low == high else f"margins {low} to {high} nats"


def number_of(value: float) -> str:
    """Return a number that was chosen, without a trailing zero: 95, 0.05."""
    return f"{value:.10g}"


def p_value(p: float) -> str:
    """Return a p value as it is written: how far below a thousandth it lies does not matter."""
    return "$<0.001$" if p < 1e-3 else number(p)
