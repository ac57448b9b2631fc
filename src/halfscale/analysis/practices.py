"""From the outcomes of wrong ways and remedies to tables/practices*.csv and their LaTeX.

What a practice costs is its final loss less that of the arm it is held against, in the same block. A run that diverged or
that PyTorch refused has no final loss and so no cost: it is counted beside the mean.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, write_csv
from halfscale.analysis.latex import Column, breakable, escape, interval, longtable, number, percent
from halfscale.analysis.statistics import mean_with_interval, median_low
from halfscale.study.practice_records import PracticesRecord, read_practices
from halfscale.study.whole import write_text

MAY_BE_EMPTY = ("first_bad_step", "later_steps", "later_finite")
"""Columns of whole numbers that may be empty."""

PER_RUN = [
    "arm",
    "seed",
    "status",
    "cost",
    "steps",
    "updates",
    "skipped",
    "growths",
    "backoffs",
    "final_scale",
    "first_lr",
    "initial_loss",
    "final_loss",
    "final_excess",
    "lost_updates",
    "eval_loss",
    "first_bad_step",
    "bad_where",
    "later_steps",
    "later_finite",
    "said",
]


def write_practices_tables(folder: Path) -> None:
    """Write tables/{practices,practices_runs}.csv and tables/practices.tex of a study that has practices.

    Raises:
        RecordError: the plan or a record is missing or not whole.
    """
    specs = read_plan(folder).in_config_order().practices
    records = {case: read_practices(folder / "practices" / case, spec)[0] for case, spec in specs.items()}
    runs = pd.concat([run_table(case, record) for case, record in records.items()], ignore_index=True)
    arms = pd.concat([arm_table(case, record) for case, record in records.items()], ignore_index=True)
    write_csv(folder / "tables" / "practices_runs.csv", runs)
    write_csv(folder / "tables" / "practices.csv", arms)
    write_text(folder / "tables" / "practices.tex", practices_tex(arms))


def read_practices_tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read a study's tables/practices.csv and tables/practices_runs.csv."""
    return read_csv(folder / "tables" / "practices.csv"), read_csv(folder / "tables" / "practices_runs.csv")


def run_table(case: str, record: PracticesRecord) -> pd.DataFrame:
    """Return one row a run, as in its outcome, with the case and the cost in nats."""
    runs = pd.DataFrame([outcome.model_dump() for outcome in record.outcomes])
    runs = runs.astype({"final_loss": "float64", **dict.fromkeys(MAY_BE_EMPTY, "Int64")})
    base = runs[runs["arm"] == record.spec.reference].set_index("seed")["final_loss"]
    cost = runs["final_loss"] - runs["seed"].map(base)
    runs["cost"] = cost.where(runs["arm"] != record.spec.reference)
    return runs[PER_RUN].assign(case=case)[["case", *PER_RUN]]


def arm_table(case: str, record: PracticesRecord) -> pd.DataFrame:
    """Return one row an arm, in the order of the config.

    pitfall: what is wrong with it; null for a right way. Counts are totals over its runs up to their first bad steps,
    losses and costs means over the completed ones, with the cost's 95 % Student t interval; first_lr the smallest, and
    first_bad_step the first of any run.
    """
    runs = run_table(case, record)
    pitfalls = {treatment.arm: treatment.run.pitfall for treatment in record.spec.treatments}
    rows = []
    for arm, own in runs.groupby("arm", sort=False):
        cost = mean_with_interval(own["cost"].astype(float))
        rows.append(
            {
                "case": case,
                "arm": arm,
                "reference": record.spec.reference,
                "pitfall": pitfalls[str(arm)],
                "n": len(own),
                **{status: int((own["status"] == status).sum()) for status in ("completed", "diverged", "refused")},
                **{name: int(own[name].sum()) for name in ("steps", "updates", "skipped", "growths", "backoffs")},
                "final_scale": median_low(own["final_scale"].astype(float)),
                "first_lr": own["first_lr"].astype(float).min(),
                "lost_updates": mean_with_interval(own["lost_updates"].astype(float)).mean,
                "final_loss": mean_with_interval(own["final_loss"]).mean,
                "cost": cost.mean,
                "cost_low": cost.low,
                "cost_high": cost.high,
                "eval_loss": mean_with_interval(own["eval_loss"].astype(float)).mean,
                "first_bad_step": own["first_bad_step"].min(),
                "bad_where": first_of(own["bad_where"]),
                "later_steps": total_of(own["later_steps"]),
                "later_finite": total_of(own["later_finite"]),
                "said": first_of(own["said"]),
            }
        )
    return pd.DataFrame(rows).astype(dict.fromkeys(MAY_BE_EMPTY, "Int64"))


def first_of(values: pd.Series) -> str | None:
    """Return the first text that is there."""
    return next((str(value) for value in values if pd.notna(value)), None)


def total_of(values: pd.Series) -> int | None:
    """Return the sum; None where there is nothing to add."""
    return int(values.sum()) if values.notna().any() else None


def outcome_text(row: Any) -> str:
    """Return how the runs of an arm ended, such as `2 of 3 completed`, or `refused`."""
    if row["refused"] == row["n"]:
        return "refused"
    if row["diverged"] == row["n"]:
        return "diverged"
    return "completed" if row["completed"] == row["n"] else f"{row['completed']} of {row['n']} completed"


def first_sentence(text: str) -> str:
    """Return what PyTorch says up to its first full stop."""
    return text.split(". ")[0]


def describe_practices(record: PracticesRecord) -> str:
    """Return a finished case as a table for a terminal: cost in nats, the share of updates that are lost in percent."""
    arms = arm_table("", record)
    shown = pd.DataFrame(
        {
            "arm": arms["arm"],
            "wrong": arms["pitfall"].fillna("").astype(str),
            "outcome": [outcome_text(row) for row in arms.to_dict("records")],
            "updates": [f"{row.updates}/{row.steps}" for row in arms.itertuples()],
            "skipped": arms["skipped"],
            "lost": [f"{100 * share:.3g} %" if pd.notna(share) else "--" for share in arms["lost_updates"]],
            "loss": arms["final_loss"],
            "cost": arms["cost"],
        }
    )
    said = [f"{row['arm']}: {first_sentence(row['said'])}" for row in arms.to_dict("records") if pd.notna(row["said"])]
    table = shown.to_string(index=False, na_rep="--", float_format="{:.4g}".format)
    return "\n".join([table, *said])


def practices_tex(table: pd.DataFrame) -> str:
    """Return the table of wrong ways and remedies."""
    columns = [
        Column("Arm", "", r">{\raggedright\arraybackslash}p{2.5cm}"),
        Column("Wrong way", "", r">{\raggedright\arraybackslash}p{2.3cm}"),
        Column("Outcome", "", r">{\raggedright\arraybackslash}p{1.7cm}"),
        Column("Updates", "/steps", "r"),
        Column("Skipped", "(steps)", "r"),
        Column("Lost", r"(\%)", "r"),
        Column("Cost", "(nats)", "r"),
        Column(r"95\,\% interval", "(nats)", "r"),
    ]

    def cells(row: dict[str, Any]) -> list[str]:
        return [
            breakable(str(row["arm"])),
            breakable(str(row["pitfall"])) if pd.notna(row["pitfall"]) else "--",
            escape(outcome_text(row)),
            f"${row['updates']}/{row['steps']}$",
            number(int(row["skipped"])),
            percent(float(row["lost_updates"])),
            number(float(row["cost"])),
            interval(float(row["cost_low"]), float(row["cost_high"])),
        ]

    groups = [
        (
            f"{breakable(str(case))}, held against {breakable(str(own['reference'].iloc[0]))}",
            [cells({str(key): value for key, value in row.items()}) for row in own.to_dict("records")],
        )
        for case, own in table.groupby("case", sort=False)
    ]
    caption = (
        "Wrong ways and remedies, by case. An arm with an entry under `wrong way' is trained wrongly on purpose. Updates and "
        "skipped steps: totals over the seeds, up to a run's first bad step. Lost: elements with a gradient whose weight "
        "an update left where it was. Cost: mean training loss over the last tenth of the steps less that of the arm that "
        "the case is held against, in the same block, of completed runs, with its Student $t$ interval."
    )
    return longtable(columns, groups, caption=caption, label="tab:practices")
