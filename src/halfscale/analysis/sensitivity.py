"""How much the final loss depends on the learning rate: tables/sensitivity*.csv and their LaTeX.

The learning-rate sensitivity of Wortsman et al. 2023 (arXiv 2309.14322, section 2.2): the mean over the rates of a sweep
of min(loss, initial loss) - best loss, where best is the least over the rates. A run that diverged counts with the initial
loss, as it does there: it is not averaged away. The rates of a sweep count alike, so that one with equal factors between
them is a mean over the logarithm of the rate.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, read_runs, write_csv
from halfscale.analysis.latex import Column, breakable, escape, interval, longtable, number, setting
from halfscale.analysis.rates import FEWEST_RATES, swept
from halfscale.analysis.statistics import mean_with_interval
from halfscale.errors import UserError
from halfscale.study.runs import Roster
from halfscale.study.whole import write_text

PER_RUN = ["workload", "arm", "precision", "lr", "seed", "status", "initial_loss", "final_loss", "loss"]


class NoSweepError(UserError, ValueError):
    """A study without a sweep of learning rates."""


def write_sensitivity_tables(folder: Path) -> None:
    """Write tables/{sensitivity,sensitivity_runs}.csv and tables/sensitivity.tex of a study that sweeps the learning rate.

    Raises:
        RecordError: plan.json is missing or no plan.
        NoSweepError: the study has no sweep of learning rates.
        OSError: tables/runs.csv is missing.
    """
    runs = run_table(read_plan(folder), read_runs(folder))
    table = sensitivity_table(runs)
    write_csv(folder / "tables" / "sensitivity_runs.csv", runs)
    write_csv(folder / "tables" / "sensitivity.csv", table)
    write_text(folder / "tables" / "sensitivity.tex", sensitivity_tex(table))


def read_sensitivity_table(folder: Path) -> pd.DataFrame:
    """Read a study's tables/sensitivity.csv; what is empty in it is null."""
    return read_csv(folder / "tables" / "sensitivity.csv")


def run_table(plan: Roster, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each run of each workload that is trained at several rates, the reference's family first.

    arm: the one that stands for its family, that at the workload's own rate if there is one. initial_loss: of the
    reference in the block, for all start from the same weights and the same batch. loss: the lesser of final and initial
    loss, the initial one of a run that diverged. In nats.

    Args:
        plan: of the study.
        runs: as read_runs gives them.

    Raises:
        NoSweepError: the study has no sweep of learning rates.
    """
    parts = []
    for workload in plan.study.workloads:
        here = runs[runs["workload"] == workload.name]
        first = here[here["arm"] == plan.study.reference].set_index("seed")["initial_loss"].astype(float)
        for family in swept(plan, workload.name):
            name = family.get(1.0, next(iter(family.values())))
            parts += [
                here[here["arm"] == arm].assign(
                    arm=name, lr=workload.optimizer.lr * rate, initial_loss=first_of(here, arm, first)
                )
                for rate, arm in family.items()
            ]
    if not parts:
        raise NoSweepError(
            f"the study has no sweep: its reference is trained at fewer than {FEWEST_RATES} learning rates"
        )
    table = pd.concat(parts, ignore_index=True)
    final = table["final_loss"].astype(float)
    return table.assign(loss=final.fillna(table["initial_loss"]).clip(upper=table["initial_loss"]))[PER_RUN]


def first_of(runs: pd.DataFrame, arm: str, first: pd.Series) -> pd.Series:
    """Return the initial loss of the block of each run of an arm."""
    return runs.loc[runs["arm"] == arm, "seed"].map(first)


def sensitivity_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each workload and family of arms that differ in their learning rate alone.

    rates, lowest_lr, highest_lr: of the sweep. best_lr: the rate of the least loss, mean over seeds, and best_loss that
    loss. n: seeds of which some run completed, of all. sensitivity: mean over seeds, nats, with its 95 % Student t
    interval; excess: less that of the reference's family in the same block, null for that itself.

    Args:
        runs: as run_table gives them.
    """
    rows: list[dict[str, Any]] = []
    for workload, here in runs.groupby("workload", sort=False):
        base: pd.Series | None = None
        for arm, own in here.groupby("arm", sort=False):
            by_seed = own.groupby("seed")
            each = by_seed["loss"].mean() - by_seed["loss"].min()
            each = each.where(by_seed["final_loss"].count() > 0)
            excess = each - base if base is not None else each.map(lambda _: math.nan)
            base = each if base is None else base
            rows.append({"workload": str(workload), "arm": str(arm), **row_of(own, each, excess)})
    return pd.DataFrame(rows)


def row_of(runs: pd.DataFrame, each: pd.Series, excess: pd.Series) -> dict[str, Any]:
    """Return what one family came to.

    Args:
        runs: its own, as run_table gives them.
        each: its sensitivity by seed.
        excess: the same less that of the reference's family.
    """
    means = runs.groupby("lr")["loss"].mean()
    estimate, more = mean_with_interval(each), mean_with_interval(excess)
    best = int(means.to_numpy().argmin())
    return {
        "precision": runs["precision"].iloc[0],
        "rates": len(means),
        "lowest_lr": float(means.index.min()),
        "highest_lr": float(means.index.max()),
        "runs": len(runs),
        "diverged": int((runs["status"] == "diverged").sum()),
        "best_lr": float(means.index.to_numpy()[best]) if estimate.n else math.nan,
        "best_loss": float(means.iloc[best]) if estimate.n else math.nan,
        "n": estimate.n,
        "of": estimate.of,
        "sensitivity": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "excess": more.mean,
        "excess_low": more.low,
        "excess_high": more.high,
    }


def sensitivity_tex(table: pd.DataFrame) -> str:
    """Return the table of the families."""
    columns = [
        Column("Arm", "", r">{\raggedright\arraybackslash}p{2.4cm}"),
        Column("Diverged", "/runs", "r"),
        Column("Best rate", "", "r"),
        Column("Loss there", "(nats)", "r"),
        Column("Sensitivity", "(nats)", "r"),
        Column(r"95\,\% interval", "(nats)", "r"),
        Column("Excess", "(nats)", "r"),
        Column(r"95\,\% interval", "(nats)", "r"),
    ]

    def cells(row: Any) -> list[str]:
        return [
            breakable(row.arm),
            f"${row.diverged}/{row.runs}$",
            setting(row.best_lr),
            number(row.best_loss),
            number(row.sensitivity),
            interval(row.low, row.high),
            number(row.excess),
            interval(row.excess_low, row.excess_high),
        ]

    groups = [
        (
            f"{escape(str(workload))}, {own['rates'].iloc[0]} rates from {setting(own['lowest_lr'].iloc[0])} to "
            f"{setting(own['highest_lr'].iloc[0])}",
            [cells(row) for row in own.itertuples()],
        )
        for workload, own in table.groupby("workload", sort=False)
    ]
    caption = (
        "Learning-rate sensitivity, by arm at the workload's own rate: mean over the rates of the lesser of final and "
        "initial loss, less the best, over seeds with its Student $t$ interval. A diverged run counts with the initial loss. "
        "Excess: the same less that of the reference in the same block."
    )
    return longtable(columns, groups, caption=caption, label="tab:sensitivity")
