"""The tables of a study: arms, gaps and survival as CSV for machines, runs, arms and loss scaling as LaTeX for the paper.

A diverged run is left out of every mean and counted beside it. Counts of events are totals over all runs of an
arm, diverged ones included. The scale at the end is the lower median of the completed runs.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, read_runs, write_csv
from halfscale.analysis.latex import Column, breakable, escape, interval, longtable, number, percent, scale, setting
from halfscale.analysis.references import references
from halfscale.analysis.shown import Shown, repeats, rows_of
from halfscale.analysis.skips import CAUSES
from halfscale.analysis.statistics import mean_with_interval, median_low, paired_gaps, share_interval
from halfscale.analysis.survival import survival_table
from halfscale.study.arm import Arm
from halfscale.study.whole import write_text

SETTINGS = [
    "precision",
    "fell_back",
    "backend",
    "loss_scaling",
    "init_scale",
    "growth_factor",
    "backoff_factor",
    "growth_interval",
]
TOTALS = ["steps", "updates", "skipped", *(f"skipped_{cause}" for cause in CAUSES), "overflows", "growths", "backoffs"]
GAPS = {"gap": "final_loss", "eval_gap": "eval_loss"}
MEANS = ["final_loss", "final_excess", "eval_loss", "eval_excess", "eval_accuracy"]

NAME = Column("Arm", "", r">{\raggedright\arraybackslash}p{3.0cm}")
DAGGER = r"$^\dagger$"
FALLBACK = rf" {DAGGER}: the device has no such precision, and the run was computed in this one instead."


MOST_ROWS = 60
"""Rows of a workload in a table of the paper: more are found sooner in the CSV."""


def write_tables(folder: Path) -> None:
    """Write tables/{gaps,arms,survival}.csv and tables/{runs,arms,scaling}.tex of a collected study.

    Raises:
        RecordError: plan.json is missing or no plan.
        OSError: tables/runs.csv is missing; collect writes it.
    """
    plan = read_plan(folder)
    reference = plan.study.reference
    runs = read_runs(folder)
    gaps = gap_table(runs, references(plan.arms, reference))
    arms = arm_table(runs, gaps)
    tables = folder / "tables"
    write_csv(tables / "gaps.csv", gaps)
    write_csv(tables / "arms.csv", arms)
    write_csv(tables / "survival.csv", survival_table(runs))
    same = repeats(runs, reference)
    shown = choose_arms(arms, plan.arms, same, MOST_ROWS)
    of_runs = choose_arms(arms, plan.arms, same, max(1, MOST_ROWS // len(plan.study.seeds)))
    write_text(tables / "runs.tex", runs_tex(only(runs, of_runs), of_runs.sentence("tables/runs.csv has all")))
    write_text(tables / "arms.tex", arms_tex(only(arms, shown), reference, shown.sentence()))
    write_text(tables / "scaling.tex", scaling_tex(only(arms, shown), shown.sentence()))


def read_arms(folder: Path) -> pd.DataFrame:
    """Read a study's tables/arms.csv; what is empty in it is null."""
    return read_csv(folder / "tables" / "arms.csv")


def choose_arms(arms: pd.DataFrame, plan: Sequence[Arm], same: Collection[tuple[str, str]], most: int) -> Shown:
    """Return which arms a table of the paper shows of each workload, as Shown says.

    Args:
        arms: as arm_table gives them.
        plan: all arms of the study.
        same: workload and arm of those that are the same runs as another, as repeats gives them.
        most: the limit of each workload.
    """
    names = {str(workload): own["arm"].tolist() for workload, own in arms.groupby("workload", sort=False)}
    return Shown.choose(names, most, plan, same)


def only(table: pd.DataFrame, shown: Shown) -> pd.DataFrame:
    """Return the rows of the arms that are shown."""
    keys = {(workload, arm) for workload, arms in shown.arms.items() for arm in arms}
    return rows_of(table, keys)


def gap_table(runs: pd.DataFrame, reference_of: Mapping[str, str]) -> pd.DataFrame:
    """Return each run's final loss and evaluation loss less its reference's in the same block, in nats.

    Null where either diverged. What is its own reference has no rows. Where not all have the same reference, the
    column `reference` names it.

    Args:
        runs: as read_runs gives them.
        reference_of: the reference of each arm, as references gives them.
    """
    runs = runs.assign(reference=runs["arm"].map(reference_of))
    compared = runs[runs["arm"] != runs["reference"]]
    own = compared.set_index(["workload", "reference", "seed"])
    base = runs.set_index(["workload", "arm", "seed"])
    gaps = {name: paired_gaps(own[loss], base[loss]).array for name, loss in GAPS.items()}
    names = ["reference"] if len(set(reference_of.values())) > 1 else []
    return compared.assign(**gaps)[["workload", "arm", "seed", *names, *GAPS]].reset_index(drop=True)


def arm_table(runs: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    """Return one row per workload and arm, in the order of the runs.

    diverged_low and diverged_high bound the share of runs that diverge (Wilson, 95 %); <mean>_low and <mean>_high
    bound means over the completed runs (Student t, 95 %); losses and gaps in nats.

    Args:
        runs: as read_runs gives them.
        gaps: as gap_table gives them.
    """
    rows = []
    gaps_of = dict(list(gaps.groupby(["workload", "arm"])))
    for (workload, arm), group in runs.groupby(["workload", "arm"], sort=False):
        own_gaps = gaps_of.get((workload, arm), gaps.iloc[:0])
        rate = {"lr_factor": group["lr_factor"].iloc[0]} if "lr_factor" in group else {}
        rows.append({"workload": workload, "arm": arm, **rate, **summarize(group), **summarize_gaps(own_gaps)})
    return pd.DataFrame(rows)


def summarize(group: pd.DataFrame) -> dict[str, Any]:
    """Return what the runs of one arm come to."""
    completed = group[group["status"] == "completed"]
    diverged = len(group) - len(completed)
    low, high = share_interval(diverged, len(group))
    row: dict[str, Any] = {
        "n": len(group),
        "completed": len(completed),
        "diverged": diverged,
        "diverged_low": low,
        "diverged_high": high,
        **{name: group[name].iloc[0] for name in SETTINGS},
        "final_scale": median_low(completed["final_scale"]),
        **{name: int(group[name].sum()) for name in TOTALS},
    }
    for name in MEANS:
        estimate = mean_with_interval(completed[name])
        row |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return row


def summarize_gaps(gaps: pd.DataFrame) -> dict[str, Any]:
    """Return the mean gap of one arm over its blocks; null for a reference, which has none."""
    estimate = mean_with_interval(gaps["gap"])
    named = {"reference": next(iter(gaps["reference"]), None)} if "reference" in gaps else {}
    return {
        **named,
        "gap": estimate.mean,
        "gap_low": estimate.low,
        "gap_high": estimate.high,
        "gap_n": estimate.n if len(gaps) else None,
    }


def runs_tex(runs: pd.DataFrame, note: str = "") -> str:
    """Return the table of these runs; `note` ends its caption."""
    columns = [
        NAME,
        Column("Seed", "", "r"),
        Column("Status", "", "l"),
        Column("Prec.", "", "l"),
        Column("$S_0$", "", "r"),
        Column("$S_T$", "", "r"),
        Column("Updates", "/steps", "r"),
        Column("Skipped", "c/g/s", "r"),
        Column("Loss", "(nats)", "r"),
        Column("Excess", "(nats)", "r"),
    ]

    def cells(run: Any) -> list[str]:
        step = "" if pd.isna(run.first_bad_step) else f" at~{number(int(run.first_bad_step))}"
        return [
            breakable(run.arm),
            number(int(run.seed)),
            escape(run.status) + step,
            precision(run),
            scale(run.init_scale),
            scale(run.final_scale),
            of(run.updates, run.steps),
            skips(run),
            number(run.final_loss),
            number(run.final_excess),
        ]

    caption = (
        f"{'Runs' if note else 'Every run'}. $S_0$ and $S_T$: loss scale at the start and after the last step, -- where nothing is scaled. "
        "Steps are counted from 0; a run diverged at its first bad one. Skipped: steps skipped in calibration (c), on a growth probe (g) and sporadically "
        "(s). Loss: mean training loss over the last tenth of the steps; excess: the same less the oracle's loss on "
        "the same samples, -- where there is no oracle. A diverged run has neither."
    )
    return longtable(
        columns, grouped(runs, cells), caption=caption + fallback_note(runs) + ended(note), label="tab:runs"
    )


def arms_tex(arms: pd.DataFrame, reference: str, note: str = "") -> str:
    """Return the table of what each arm came to: status, losses and gap to the reference; `note` ends its caption."""
    columns = [
        NAME,
        Column("Prec.", "", "l"),
        Column("$n/N$", "(runs)", "r"),
        Column("Loss", "(nats)", "r"),
        Column("Excess", "(nats)", "r"),
        Column("Eval.\\ loss", "(nats)", "r"),
        Column("Accuracy", r"(\%)", "r"),
        Column("Gap", "(nats)", "r"),
        Column(r"95\,\% interval", "(nats)", "r"),
    ]

    def cells(arm: Any) -> list[str]:
        return [
            breakable(arm.arm),
            precision(arm),
            of(arm.completed, arm.n),
            number(arm.final_loss),
            number(arm.final_excess),
            number(arm.eval_loss),
            percent(arm.eval_accuracy),
            number(arm.gap),
            interval(arm.gap_low, arm.gap_high),
        ]

    at_rate = ", or at another learning rate of the reference's settings there" if "reference" in arms else ""
    caption = (
        "Outcome by arm: means over the $n$ completed runs of $N$. Loss: mean training loss over the last tenth of the steps; "
        "excess: the same less the oracle's loss on the same samples. Eval.\\ loss and accuracy: on held-out samples. "
        f"Gap: loss less that of {escape(reference)} in the same block{at_rate}, mean over the blocks in which both completed, "
        "with its Student $t$ interval."
    )
    return longtable(
        columns, grouped(arms, cells), caption=caption + fallback_note(arms) + ended(note), label="tab:arms"
    )


def scaling_tex(arms: pd.DataFrame, note: str = "") -> str:
    """Return the table of loss scaling by arm, of arms that scale or overflow; `note` ends its caption."""
    arms = arms[(arms["loss_scaling"] != "none") | (arms["overflows"] > 0)]
    columns = [
        NAME,
        Column("Scaling", "", "l"),
        Column("$S_0$", "", "r"),
        Column("$N$", "(steps)", "r"),
        Column("$\\gamma$", "", "r"),
        Column("$b$", "", "r"),
        Column("$S_T$", "", "r"),
        Column("Updates", "/steps", "r"),
        Column("Growths", "", "r"),
        Column("Back-", "offs", "r"),
        Column("Over-", "flows", "r"),
        Column("Skipped", "c/g/s", "r"),
    ]

    def cells(arm: Any) -> list[str]:
        return [
            breakable(arm.arm),
            arm.loss_scaling,
            scale(arm.init_scale),
            number(None if pd.isna(arm.growth_interval) else int(arm.growth_interval)),
            setting(arm.growth_factor),
            setting(arm.backoff_factor),
            scale(arm.final_scale),
            of(arm.updates, arm.steps),
            number(int(arm.growths)),
            number(int(arm.backoffs)),
            number(int(arm.overflows)),
            skips(arm),
        ]

    caption = (
        "Loss scaling by arm, of arms that scale or overflow. $S_0$: initial scale; $N$: growth interval; $\\gamma$, $b$: growth and backoff factor; $S_T$: scale after the last step, the lower "
        "median of the completed runs; -- where it does not apply. Counts are totals over all runs of the arm, "
        "diverged ones included. Skipped: steps skipped in calibration (c), on a growth probe (g) and sporadically (s)."
    )
    return longtable(columns, grouped(arms, cells), caption=caption + ended(note), label="tab:scaling")


def grouped(table: pd.DataFrame, cells: Any) -> list[tuple[str, list[list[str]]]]:
    """Return the rows of a table by workload, each row as its cells."""
    return [
        (escape(str(workload)), [cells(row) for row in group.itertuples()])
        for workload, group in table.groupby("workload", sort=False)
    ]


def precision(row: Any) -> str:
    return escape(row.precision) + (DAGGER if row.fell_back else "")


def fallback_note(table: pd.DataFrame) -> str:
    return FALLBACK if table["fell_back"].any() else ""


def ended(note: str) -> str:
    return f" {escape(note)}" if note else ""


def of(count: int, total: int) -> str:
    return f"${count}/{total}$"


def skips(row: Any) -> str:
    return "$" + "/".join(str(getattr(row, f"skipped_{cause}")) for cause in CAUSES) + "$"
