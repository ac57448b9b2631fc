"""How much the final loss depends on the learning rate: tables/sensitivity.csv and its LaTeX.

The learning-rate sensitivity of Wortsman et al. 2023 (arXiv 2309.14322, section 2.2): the mean over the rates of a sweep
of min(loss, initial loss) - best loss, where best is the least over the rates. A run that diverged counts with the initial
loss, as it does there: it is not averaged away. The rates of a sweep count alike, so that one with equal factors between
them is a mean over the logarithm of the rate.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, read_runs, write_csv
from halfscale.analysis.latex import Column, breakable, escape, interval, longtable, number, setting
from halfscale.analysis.rates import FEWEST_RATES, has_sweep, swept
from halfscale.analysis.statistics import mean_with_interval
from halfscale.errors import UserError
from halfscale.study.runs import Roster
from halfscale.study.whole import write_text

COLUMNS = [
    *("workload", "arm", "precision", "rates", "lowest_lr", "highest_lr", "runs", "diverged", "best_lr", "best_loss"),
    *("n", "of", "sensitivity", "low", "high", "excess", "excess_low", "excess_high"),
]


class NoSweepError(UserError, ValueError):
    """A study without a sweep of learning rates."""


def write_sensitivity_tables(folder: Path) -> None:
    """Write tables/sensitivity.csv and tables/sensitivity.tex of a study that sweeps the learning rate.

    Raises:
        RecordError: plan.json is missing or no plan.
        NoSweepError: the study has no sweep of learning rates.
        OSError: tables/runs.csv is missing.
    """
    plan = read_plan(folder)
    table = sensitivity_table(plan, read_runs(folder))
    write_csv(folder / "tables" / "sensitivity.csv", table)
    write_text(folder / "tables" / "sensitivity.tex", sensitivity_tex(table))


def read_sensitivity_table(folder: Path) -> pd.DataFrame:
    """Read a study's tables/sensitivity.csv; what is empty in it is null."""
    return read_csv(folder / "tables" / "sensitivity.csv")


def sensitivity_table(plan: Roster, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each workload and family of arms that differ in their learning rate alone.

    arm: the family's, at the workload's own rate if it has that one. rates, lowest_lr, highest_lr: of the sweep. best_lr: the rate of the least
    loss, mean over seeds, and best_loss that loss. n: seeds of which some run completed, of all. sensitivity: mean over
    seeds, nats, with its 95 % Student t interval; excess: less that of the reference's family in the same block.

    Args:
        plan: of the study.
        runs: as read_runs gives them.

    Raises:
        NoSweepError: the study has no sweep of learning rates.
    """
    if not has_sweep(plan):
        raise NoSweepError(
            f"the study has no sweep: its reference is trained at fewer than {FEWEST_RATES} learning rates"
        )
    rows: list[dict[str, Any]] = []
    for workload in plan.study.workloads:
        own = runs[runs["workload"] == workload.name]
        base: pd.Series | None = None
        for family in swept(plan, workload.name):
            losses = capped_losses(own, family, plan.study.reference)
            each = losses.mean(axis=1) - losses.min(axis=1)
            each[~completed(own, family).any(axis=1)] = math.nan
            excess = each - base if base is not None else each.map(lambda _: math.nan)
            base = each if base is None else base
            names = {"workload": workload.name, "arm": family.get(1.0, next(iter(family.values())))}
            rows.append(names | row_of(own, family, losses, each, excess, workload.optimizer.lr))
    return pd.DataFrame(rows)[COLUMNS]


def by_rate(runs: pd.DataFrame, family: dict[float, str], values: pd.Series) -> pd.DataFrame:
    """Return one value a run of a family, seeds down and rates across."""
    columns = {
        rate: values[runs["arm"] == arm].set_axis(runs.loc[runs["arm"] == arm, "seed"]) for rate, arm in family.items()
    }
    return pd.DataFrame(columns)


def completed(runs: pd.DataFrame, family: dict[float, str]) -> pd.DataFrame:
    """Return which runs of a family completed, seeds down and rates across."""
    return by_rate(runs, family, runs["status"] == "completed")


def capped_losses(runs: pd.DataFrame, family: dict[float, str], reference: str) -> pd.DataFrame:
    """Return min(final loss, initial loss) of a family's runs, nats, seeds down and rates across.

    A run that diverged has the initial loss, which is that of the reference in the block: all start from the same
    weights and the same batch.
    """
    first = runs[runs["arm"] == reference].set_index("seed")["initial_loss"].astype(float)
    losses = by_rate(runs, family, runs["final_loss"].astype(float))
    initial = np.broadcast_to(first.reindex(losses.index).to_numpy()[:, None], losses.shape)
    return losses.fillna(np.inf).clip(upper=pd.DataFrame(initial, losses.index, losses.columns))


def row_of(
    runs: pd.DataFrame, family: dict[float, str], losses: pd.DataFrame, each: pd.Series, excess: pd.Series, lr: float
) -> dict[str, Any]:
    """Return what one family came to.

    Args:
        runs: of the workload.
        family: names of arms by lr_factor.
        losses: as capped_losses gives them.
        each: its sensitivity by seed.
        excess: the same less that of the reference's family, NaN for that itself.
        lr: the workload's own learning rate.
    """
    own = runs[runs["arm"].isin(family.values())]
    means = losses.mean()
    best = sorted(family)[int(means.to_numpy().argmin())]
    estimate, more = mean_with_interval(each), mean_with_interval(excess)
    return {
        "precision": own["precision"].iloc[0],
        "rates": len(family),
        "lowest_lr": lr * min(family),
        "highest_lr": lr * max(family),
        "runs": len(own),
        "diverged": int((own["status"] == "diverged").sum()),
        "best_lr": lr * best if estimate.n else math.nan,
        "best_loss": float(means[best]) if estimate.n else math.nan,
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
        Column("Arm", "", r">{\raggedright\arraybackslash}p{3.2cm}"),
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
