"""Published figures beside the bounds of the study's data sheets and its own timings: tables/published.csv, its LaTeX.

What others published stands in published.csv beside this file, a figure a row, with its source and what was changed
along with the precision. It is the same for every study; the bounds and the timings are the study's own.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, write_csv
from halfscale.analysis.latex import Column, breakable, escape, interval, longtable, number, setting
from halfscale.analysis.roofline import read_roofline_table
from halfscale.analysis.throughput import read_throughput_table
from halfscale.study.runs import Roster
from halfscale.study.step import Image
from halfscale.study.whole import write_text

DATA = Path(__file__).with_name("published.csv")

PARAGRAPH = r">{\raggedright\arraybackslash}p{%s}"


def write_published_tables(folder: Path) -> None:
    """Write tables/published.csv and tables/published.tex of a study whose roofline and timings, if any, are tabled.

    Raises:
        RecordError: plan.json is missing or no plan.
        OSError: a table is missing.
    """
    plan = read_plan(folder)
    table = published_table(plan, read_roofline_table(folder) if plan.roofline else None)
    timed = read_throughput_table(folder) if plan.throughput else None
    write_csv(folder / "tables" / "published.csv", table)
    write_text(folder / "tables" / "published.tex", published_tex(table, timed))


def read_published_table(folder: Path) -> pd.DataFrame:
    """Read a study's tables/published.csv."""
    return read_csv(folder / "tables" / "published.csv")


def published_table(plan: Roster, roofline: pd.DataFrame | None) -> pd.DataFrame:
    """Return what was published, one row a figure, and beside it what data sheets allow.

    ratio: value of FP16 over that of the baseline; memory_ratio: the same of the peak memory. bound_fp32, bound_tf32:
    least time of a step in that precision over least time in FP16 on the same device, of the study's case with the
    same model and input, and at the batch size bound_batch; null where it has none.
    """
    table = read_csv(DATA)
    speed = table["kind"] == "speed"
    table["ratio"] = (table["half_value"] / table["baseline_value"]).where(speed)
    table["memory_ratio"] = table["half_mb"] / table["baseline_mb"]
    bounds = [bounds_of(row, plan, roofline) for row in table.to_dict("records")]
    return pd.concat([table, pd.DataFrame(bounds, columns=["bound_batch", "bound_fp32", "bound_tf32"])], axis=1)


def bounds_of(row: dict[Any, Any], plan: Roster, roofline: pd.DataFrame | None) -> tuple[float, float, float]:
    """Return the batch size of the case that has a figure's model and input, and what its device's sheet allows."""
    unknown = (math.nan, math.nan, math.nan)
    cases = [
        name
        for name, spec in plan.roofline.items()
        if spec.case.model == row["roofline_model"]
        and isinstance(spec.case.input, Image)
        and spec.case.input.size == row["roofline_size"]
    ]
    if not cases or roofline is None:
        return unknown
    own = roofline[(roofline["case"] == cases[0]) & (roofline["device"] == row["device"])].set_index("precision")
    if "fp16" not in own.index:
        return unknown
    least = {str(precision): float(ms) for precision, ms in own["step_ms"].items()}
    fp32, tf32 = (least.get(precision, math.nan) / least["fp16"] for precision in ("fp32", "tf32"))
    return float(own["batch_size"].iloc[0]), fp32, tf32


def own_timings(timed: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield timed variants that have a speed-up, without a scaler, and the FP32 variant that it was taken to.

    Of each workload and precision one, chosen by the config alone: the first listed of those with the largest batch.
    """
    rows = timed[timed["speedup"].notna() & ~timed["loss_scaling"]].sort_values(
        "batch_size", ascending=False, kind="stable"
    )
    levels = ["workload", "memory_format", "batch_size", "compile", "fused"]
    base = timed[(timed["precision"] == "fp32") & ~timed["loss_scaling"]].set_index(levels)
    for row in rows.drop_duplicates(["workload", "precision"]).sort_index().to_dict("records"):
        other = base.loc[tuple(row[level] for level in levels)]
        yield {str(name): value for name, value in row.items()}, other.to_dict()


def published_tex(table: pd.DataFrame, timed: pd.DataFrame | None) -> str:
    """Return the table of published speed-ups, by source, and this study's own below them.

    Args:
        table: as published_table gives it.
        timed: as read_throughput_table gives it; None where the study times nothing.
    """
    columns = [
        Column("Hardware", "", "l"),
        Column("Model", "", PARAGRAPH % "2.2cm"),
        Column("Unit", "", "l"),
        Column("From", "", "l"),
        Column("to", "", "l"),
        Column("Rate,", "from", "r"),
        Column("Rate,", "to", "r"),
        Column("Ratio", "", "r"),
        Column("Bound,", "FP32", "r"),
        Column("Bound,", "TF32", "r"),
        Column("Changed as well", "", PARAGRAPH % "2.5cm"),
    ]

    def cells(row: dict[Any, Any]) -> list[str]:
        return [
            *(escape(row[name]) for name in ("hardware", "model", "unit", "baseline", "half")),
            setting(row["baseline_value"]),
            setting(row["half_value"]),
            number(row["ratio"]),
            number(row["bound_fp32"]),
            number(row["bound_tf32"]),
            escape(row["changed"]) if isinstance(row["changed"], str) else "nothing named",
        ]

    def own_cells(row: dict[str, Any], base: dict[str, Any]) -> list[str]:
        return [
            "this study's",
            breakable(row["workload"]),
            "samples/s",
            "FP32",
            row["precision"].upper(),
            number(base["samples_per_second"]),
            number(row["samples_per_second"]),
            number(row["speedup"]),
            number(base["least_ms"] / row["least_ms"]),
            number(None),
            rf"nothing; 95\,\% interval {interval(row['speedup_low'], row['speedup_high'])}"
            if pd.notna(row["speedup_low"])
            else "nothing; too few blocks for an interval",
        ]

    speed = table[table["kind"] == "speed"]
    groups = [
        (rf"\citet{{{source}}}", [cells(row) for row in rows.to_dict("records")])
        for source, rows in speed.groupby("source", sort=False)
    ]
    own = [] if timed is None else [own_cells(*pair) for pair in own_timings(timed)]
    groups += [("This study", own)] if own else []
    batches = table["bound_batch"].dropna()
    bound = (
        f"Bound: what the data sheet of the device allows for ResNet-50 at batch size {int(batches.iloc[0])} "
        r"(Section~\ref{sec:roofline}), over FP32 and over TF32. "
        if len(batches)
        else "Bound: what the data sheet of the device allows, over FP32 and over TF32, where the study predicts it. "
    )
    caption = (
        "Published speed-ups of half precision, by source, with what was changed along with the precision. Ratio: the second "
        f"rate over the first. {bound}"
        + (
            "This study's ratios are medians of those within its blocks, and not quite the ratios of its medians. A CPU's "
            "ratio and a GPU's are of two treatments and are not to be pooled."
            if own
            else ""
        )
    )
    return longtable(columns, groups, caption=caption.strip(), label="tab:published")
