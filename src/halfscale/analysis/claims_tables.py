"""From a study's tables to tables/claims.csv and its LaTeX: what becomes of each claim, and by which rule."""

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.claims import claim_modules, claim_name, claim_tables
from halfscale.analysis.claims._verdict import KINDS, Tables
from halfscale.analysis.collect import read_csv, read_plan, write_csv
from halfscale.analysis.latex import Column, breakable, flowing, interval, longtable, number
from halfscale.study.arm import Arm, DynamicLossScaling
from halfscale.study.claims import Claims
from halfscale.study.runs import Roster
from halfscale.study.whole import write_text

COLUMNS = [
    "id",
    "verdict",
    "statement",
    "estimate",
    "low",
    "high",
    "interval",
    "unit",
    "n",
    "finding",
    "would_decide",
    "rule",
    "table",
    "rows",
]


def write_claims_tables(folder: Path) -> None:
    """Write tables/claims.csv and tables/claims.tex of a study whose other tables are written.

    Raises:
        RecordError: plan.json is missing or no plan.
        OSError: tables/arms.csv or tables/runs.csv is missing.
    """
    plan = read_plan(folder)
    table = claim_table(read_evidence(folder / "tables", plan), plan.study.experiments.claims)
    write_csv(folder / "tables" / "claims.csv", table)
    write_text(folder / "tables" / "claims.tex", claims_tex(table))


def read_claims_table(folder: Path) -> pd.DataFrame:
    """Read a study's tables/claims.csv; text that is empty in it is empty text."""
    return with_text(read_csv(folder / "tables" / "claims.csv"))


def with_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of claims with empty text where there is none."""
    text = [name for name in COLUMNS if name not in ("estimate", "low", "high", "n")]
    return table.assign(**{name: table[name].astype(object).where(table[name].notna(), "") for name in text})


def read_evidence(tables: Path, plan: Roster) -> dict[str, pd.DataFrame]:
    """Return the tables that the claims read, by name, without those that are not there, and `settings`.

    Args:
        tables: the folder that holds them.
        plan: of the study.

    Raises:
        OSError: arms.csv or runs.csv is missing.
    """
    always = {"arms", "runs"}
    names = [name for name in sorted(claim_tables()) if name in always or (tables / f"{name}.csv").exists()]
    return {name: read_csv(tables / f"{name}.csv") for name in names} | {"settings": settings_table(plan)}


def settings_table(plan: Roster) -> pd.DataFrame:
    """Return what every arm is: of the study, where `case` is empty, and of the cases of its practices.

    Columns: case, arm, model (of a case), precision, loss_scaling and its settings, lr_factor, perturb, inject, pitfall,
    fp32_modules and layer_scales as text, empty where there are none; emulated: whether the study times emulated formats.
    """
    experiments = plan.study.experiments
    emulated = bool(experiments.throughput and experiments.throughput.emulated)
    rows = [{"case": "", "model": "", **arm_settings(arm)} for arm in plan.arms]
    for case in experiments.practices.cases if experiments.practices else []:
        rows += [{"case": case.name, "model": case.workload.model, **arm_settings(arm)} for arm in case.arms]
    return pd.DataFrame(rows).assign(emulated=emulated)


def arm_settings(arm: Arm) -> dict[str, Any]:
    """Return what an arm is, without its name's and its workloads' part in it."""
    scaling = arm.effective_loss_scaling
    dynamic = scaling if isinstance(scaling, DynamicLossScaling) else None
    return {
        "arm": arm.name,
        "precision": arm.precision,
        "loss_scaling": scaling.kind,
        "init_scale": getattr(scaling, "init_scale", getattr(scaling, "scale", math.nan)),
        "growth_factor": dynamic.growth_factor if dynamic else math.nan,
        "backoff_factor": dynamic.backoff_factor if dynamic else math.nan,
        "growth_interval": dynamic.growth_interval if dynamic else math.nan,
        "lr_factor": arm.lr_factor,
        "perturb": arm.perturb,
        "inject": arm.inject.model_dump_json() if arm.inject else "",
        "pitfall": arm.pitfall or "",
        "fp32_modules": ", ".join(arm.fp32_modules),
        "layer_scales": ", ".join(f"{module}: {scale:g}" for module, scale in arm.layer_scales.items()),
    }


def claim_table(tables: Tables, thresholds: Claims) -> pd.DataFrame:
    """Return one row a claim, in alphabetical order.

    estimate, low, high: in `unit`, `interval` says what low and high are; empty where nothing was measured. n: blocks, runs
    or cases. table and rows: where the estimate comes from.
    """
    rows = []
    for name in claim_modules():
        module = import_module(name)
        found = module.judge(tables, thresholds)
        values = {"id": claim_name(name), "statement": module.STATEMENT, "verdict": found.kind, "rule": module.RULE}
        rows.append(values | {column: getattr(found, column) for column in COLUMNS if column not in values})
    return pd.DataFrame(rows)[COLUMNS].astype({"n": "Int64"})


def shown_by(claim: str) -> tuple[str, str]:
    """Return the labels of the paper's figure and table that show what a claim is judged by."""
    figure, table = import_module(f"halfscale.analysis.claims.{claim.replace('-', '_')}").SHOWN
    return figure, table


def claims_tex(table: pd.DataFrame) -> str:
    """Return the table of claims, by verdict."""
    ragged = r">{\raggedright\arraybackslash}p{%scm}"
    gap = r"!{\hspace{0.6em}}"  # long lines of neighbours would all but touch
    columns = [
        Column("Claim", "", ragged % 5.7),
        Column("Estimate", "and interval", gap + ragged % 4.4),
        Column("Evidence", "", gap + ragged % 4.8),
    ]
    table = with_text(table)
    groups = [
        (verdict.capitalize(), [claim_cells(row) for row in own.to_dict("records")])
        for verdict, own in ((kind, table[table["verdict"] == kind]) for kind in KINDS)
        if len(own)
    ]
    caption = (
        "The claims, by verdict. Each is judged by a rule that was fixed, with its thresholds, before the study was run; "
        "the file tables/claims.csv beside this paper has the rules, and the rows that an estimate comes from. After each interval "
        "stands what it is."
    )
    return longtable(columns, groups, caption=caption, label="tab:claims")


def claim_cells(row: dict[Any, Any]) -> list[str]:
    """Return the cells of one claim as LaTeX."""
    return [
        rf"{flowing(sentence(row['statement']))} (\texttt{{{breakable(row['id'])}}})",
        estimate_cell(row),
        evidence_cell(row),
    ]


def estimate_cell(row: dict[Any, Any]) -> str:
    """Return a claim's estimate with its unit, and its interval."""
    if pd.isna(row["estimate"]):
        return "--"
    text = f"{number(float(row['estimate']))}{with_space(row['unit'])}"
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return f"{text}, {flowing(row['interval'])}" if row["interval"] else text
    kind = flowing(short(row["interval"])).replace(r" \%", r"\,\%")
    return f"{text}; {interval(float(row['low']), float(row['high']))}, {kind}"


def with_space(unit: str) -> str:
    """Return a unit as LaTeX that follows on a number."""
    return rf"\,\% {flowing(unit[2:])}" if unit.startswith("% ") else f" {flowing(unit)}"


def short(interval_name: str) -> str:
    """Return what an interval is, as short as a cell takes."""
    return interval_name.replace(" interval over blocks", "").replace(" interval over runs", "")


def evidence_cell(row: dict[Any, Any]) -> str:
    """Return where the evidence is, and what would decide."""
    parts = []
    if row["verdict"] != "not testable":
        figure, table = shown_by(row["id"])
        n = "" if pd.isna(row["n"]) else f"; $n = {int(row['n'])}$"
        parts.append(rf"Fig.~\ref{{{figure}}}, Table~\ref{{{table}}}{n}.")
    if row["would_decide"]:
        verb = "Would test it" if row["verdict"] == "not testable" else "Would decide"
        parts.append(f"{verb}: {flowing(row['would_decide'])}.")
    return " ".join(parts)


def sentence(statement: str) -> str:
    """Return a statement as a sentence: led by a capital, with a full stop."""
    return f"{statement[0].upper()}{statement[1:]}."
