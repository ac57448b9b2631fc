"""From timed steps to rates and ratios: tables/throughput.csv and its LaTeX.

A variant's time is the median of its blocks' medians. A ratio is taken in each block, between two variants that differ
in one level alone, and its median stands with a bootstrap interval over the blocks.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, write_csv
from halfscale.analysis.latex import Column, breakable, escape, interval, longtable, number, percent
from halfscale.analysis.statistics import Median, median_with_interval
from halfscale.study.throughput import ThroughputSpec, Variant, short_names
from halfscale.study.timings import DataSheet, GpuLook, ThroughputRecord, Timed, read_throughput
from halfscale.study.whole import write_text

INPUT_BOUND = 0.05
"""Share of a step spent waiting for its batch from which a measurement is flagged."""

NOISY = 0.05
"""Spread of a variant's blocks, as a share of their median, from which its times are said to be disturbed."""

PHASES = ["forward", "backward", "optimizer"]


def write_throughput_tables(folder: Path) -> None:
    """Write tables/{throughput,throughput_blocks}.csv and tables/throughput.tex of a study whose steps are timed.

    Raises:
        RecordError: the plan or a measurement is missing or not whole.
    """
    plan = read_plan(folder)
    measured = [read_throughput(folder / "throughput" / workload, spec) for workload, spec in plan.throughput.items()]
    table = pd.concat([throughput_table(record, steps) for record, steps in measured], ignore_index=True)
    blocks = pd.concat([block_table(record, steps) for record, steps in measured], ignore_index=True)
    write_csv(folder / "tables" / "throughput.csv", table)
    write_csv(folder / "tables" / "throughput_blocks.csv", blocks)
    write_text(folder / "tables" / "throughput.tex", throughput_tex(table))


def read_throughput_table(folder: Path) -> pd.DataFrame:
    """Read a study's tables/throughput.csv; what is empty in it is null."""
    return read_csv(folder / "tables" / "throughput.csv")


def throughput_table(record: ThroughputRecord, steps: pd.DataFrame) -> pd.DataFrame:
    """Return one row a variant, in the order of the spec; null where it was not timed.

    Times in milliseconds, rates per second, ratios and shares plain. <name>_low and <name>_high bound a median (95 %,
    bootstrap over blocks). speedup: time of fp32 over this one's; scaler_cost: time with the scaler over time without.

    Args:
        record: of the measurement.
        steps: its timed steps.
    """
    blocks = block_medians(steps[~steps["loader"]])
    loaded = steps[steps["loader"]]
    loaded = block_medians(loaded.assign(waiting=1 - loaded[PHASES].sum(axis=1) / loaded["seconds"]), ["waiting"])
    by_name = {timed.variant: timed for timed in record.timed}
    return pd.DataFrame(
        [row_of(variant, by_name[variant.name], record, blocks, loaded) for variant in record.spec.variants]
    )


def block_table(record: ThroughputRecord, steps: pd.DataFrame) -> pd.DataFrame:
    """Return one row a variant and block: median milliseconds of its steps, and its speed-up over fp32 in the block."""
    medians = block_medians(steps[~steps["loader"]])
    rows = []
    for variant in record.spec.variants:
        if variant.name in medians.index:
            own = medians.loc[variant.name]
            base = plain_fp32(variant, record.spec)
            known = base is not None and base.name in medians.index
            speedup = medians.loc[base.name]["seconds"] / own["seconds"] if base and known else math.nan
            part = pd.DataFrame({"step_ms": 1e3 * own["seconds"], "speedup": speedup}).reset_index()
            rows.append(part.assign(workload=record.spec.workload, variant=variant.name))
    return pd.concat(rows, ignore_index=True)[["workload", "variant", "block", "step_ms", "speedup"]]


def block_medians(steps: pd.DataFrame, more: Sequence[str] = ()) -> pd.DataFrame:
    """Return each block's median seconds of a step and of its phases, and of other columns, by variant and block."""
    return steps.groupby(["variant", "block"])[["seconds", *PHASES, "wall", *more]].median()


def row_of(
    variant: Variant, timed: Timed, record: ThroughputRecord, blocks: pd.DataFrame, loaded: pd.DataFrame
) -> dict[str, Any]:
    """Return the row of one variant."""
    row: dict[str, Any] = {
        "workload": record.spec.workload,
        "variant": variant.name,
        "label": short_names(record.spec.variants)[variant.name],
        **variant.model_dump(),
        "status": timed.status,
        "warmup": timed.warmup,
        "steady": timed.steady,
        "scale": timed.scale,
    }
    if timed.status != "timed":
        return row
    own = blocks.loc[variant.name]
    time = median_with_interval(own["seconds"])
    samples = variant.batch_size / time.median
    rate = record.flops[str(variant.batch_size)] / time.median
    row["blocks"] = len(own)
    row["spread"] = spread(own["seconds"])
    row["disturbed"] = row["spread"] > NOISY
    row |= named("step_ms", Median(*(1e3 * value for value in time)))
    row |= {f"{phase}_ms": 1e3 * float(own[phase].median()) for phase in PHASES}
    row |= {"samples_per_second": samples, "targets_per_second": samples * record.targets_per_sample}
    row |= {"tflops": rate / 1e12, "share_of_gemm": rate / record.attained.gemm[variant.precision]}
    row |= attained(variant, record)
    row |= against_sheet(variant, record.sheet, rate, time.median)
    row |= named("speedup", ratio(blocks, of=plain_fp32(variant, record.spec), to=variant))
    row |= named("scaler_cost", ratio(blocks, of=variant, to=unscaled(variant, record.spec)))
    row |= watched(record.gpu)
    row["launch_gap"] = float((1 - own["seconds"] / own["wall"]).median())
    row["loader_ms"] = 1e3 * float(loaded.loc[variant.name]["seconds"].median())
    row["waiting"] = float(loaded.loc[variant.name]["waiting"].median())
    row["input_bound"] = row["waiting"] > INPUT_BOUND
    return row


def attained(variant: Variant, record: ThroughputRecord) -> dict[str, float]:
    """Return what the device attains on the simplest work: products, 10^12 FLOP/s; copies, 10^9 bytes/s; moving the
    inputs of a batch from the host in this precision's format, ms, null on a CPU and for a batch of another size."""
    found = record.attained
    moved = found.transfer if variant.batch_size == record.spec.variants[0].batch_size else {}
    in_format = moved.get({"tf32": "fp32"}.get(variant.precision, variant.precision), moved.get("int64", math.nan))
    return {
        "gemm_tflops": found.gemm[variant.precision] / 1e12,
        "copy_gb_per_second": found.copy_bandwidth / 1e9,
        "transfer_ms": 1e3 * in_format,
    }


def against_sheet(variant: Variant, sheet: DataSheet | None, rate: float, seconds: float) -> dict[str, float]:
    """Return a variant's rate over the peak of its data sheet (MFU), the least time of its step there, and how near it is.

    Args:
        variant: the variant.
        sheet: of its device; None where that is not listed.
        rate: model FLOP a second.
        seconds: of a step.
    """
    peak = sheet.peaks.get(variant.precision, math.nan) if sheet else math.nan
    least = sheet.least_seconds.get(variant.name, math.nan) if sheet else math.nan
    return {"mfu": rate / peak, "least_ms": 1e3 * least, "share_of_bound": least / seconds}


def watched(looks: Sequence[GpuLook]) -> dict[str, float]:
    """Return the range of a GPU's clock over the measurement, MHz, and the share of looks that found it held back."""
    if not looks:
        return dict.fromkeys(("sm_clock_low", "sm_clock_high", "held_back"), math.nan)
    clocks = [look.sm_clock for look in looks]
    held_back = sum(look.held_back for look in looks) / len(looks)
    return {"sm_clock_low": min(clocks), "sm_clock_high": max(clocks), "held_back": held_back}


def spread(values: pd.Series) -> float:
    """Return the distance between the quartiles as a share of the median."""
    return float((values.quantile(0.75) - values.quantile(0.25)) / values.median())


def named(name: str, value: Median) -> dict[str, float]:
    return {name: value.median, f"{name}_low": value.low, f"{name}_high": value.high}


def ratio(blocks: pd.DataFrame, of: Variant | None, to: Variant | None) -> Median:
    """Return the median over blocks of one variant's time over another's; NaN where one was not timed, or both are one."""
    timed = set(blocks.index.get_level_values("variant"))
    if of is None or to is None or of == to or not {of.name, to.name} <= timed:
        return Median(math.nan, math.nan, math.nan)
    return median_with_interval(blocks.loc[of.name]["seconds"] / blocks.loc[to.name]["seconds"])


def plain_fp32(variant: Variant, spec: ThroughputSpec) -> Variant | None:
    """Return the variant with which a speed-up is taken: fp32 without a scaler, as one trains in it, all else the same.

    None for fp32 itself: what a scaler costs it is no speed-up.
    """
    if variant.precision == "fp32":
        return None
    wanted = variant.model_copy(update={"precision": "fp32", "loss_scaling": False})
    return wanted if wanted in spec.variants else None


def unscaled(variant: Variant, spec: ThroughputSpec) -> Variant | None:
    """Return the variant that shows what a scaler costs: the same without it; None for one that has none."""
    wanted = variant.model_copy(update={"loss_scaling": False})
    return wanted if variant.loss_scaling and wanted in spec.variants else None


def describe_throughput(folder: Path, spec: ThroughputSpec) -> str:
    """Return a finished measurement as a table for a terminal.

    Raises:
        RecordError: it is missing or not whole.
    """
    table = throughput_table(*read_throughput(folder, spec))
    shown = ["label", "status", "step_ms", "samples_per_second", "speedup", "speedup_low", "speedup_high", "tflops"]
    text = table.reindex(columns=shown).to_string(index=False, na_rep="--", float_format="{:.4g}".format)
    text += "\n\nspeedup: over fp32 without a scaler, median of the ratios within each block, with its 95 % interval"
    disturbed = table.loc[table["disturbed"].eq(True), "label"]
    if len(disturbed):
        text += (
            f"\nBlocks of {spec.workload} ({', '.join(disturbed)}) differ by more than {NOISY:.0%}: does this machine do "
            "other work? Times of an idle one are worth more."
        )
    return text


def throughput_tex(table: pd.DataFrame) -> str:
    """Return the table of every variant."""
    listed = table["mfu"].notna().any()
    of_sheet = [Column("MFU", r"(\%)", "r"), Column("Of bound", r"(\%)", "r")]
    columns = [
        Column("Variant", "", r">{\raggedright\arraybackslash}p{2.6cm}"),
        Column("Step", "(ms)", "r"),
        Column(r"95\,\% interval", "(ms)", "r"),
        Column("Samples", "(1/s)", "r"),
        Column("Speed-up", "", "r"),
        Column(r"95\,\% interval", "", "r"),
        Column("Rate", "(TFLOP/s)", "r"),
        Column("Of GEMM", r"(\%)", "r"),
        *(of_sheet if listed else []),
        Column("Waiting", r"(\%)", "r"),
    ]

    def cells(row: Any) -> list[str]:
        if row.status != "timed":
            note = rf"\multicolumn{{{len(columns) - 1}}}{{l}}{{\textit{{{escape(row.status)}}}}}"
            return [breakable(row.label), note]
        return [
            breakable(row.label),
            number(row.step_ms),
            interval(row.step_ms_low, row.step_ms_high),
            number(row.samples_per_second),
            number(row.speedup),
            interval(row.speedup_low, row.speedup_high),
            number(row.tflops),
            percent(row.share_of_gemm),
            *([percent(row.mfu), percent(row.share_of_bound)] if listed else []),
            percent(row.waiting) + (r"$^\ast$" if row.input_bound else ""),
        ]

    groups = [
        (escape(str(workload)), [cells(row) for row in rows.itertuples()])
        for workload, rows in table.groupby("workload", sort=False)
    ]
    caption = (
        "Time of a training step by variant: median of the blocks' medians, with its bootstrap interval over the "
        "blocks. Speed-up: the time of FP32 without a scaler, all else the same, over this one's, in the same block. Rate: model FLOP "
        "of forward and backward pass over the time; of GEMM: as a share of what a square matrix product attains in "
        "this precision. "
        + ("MFU: as a share of the data sheet's peak; of bound: its least time over the time. " if listed else "")
        + "Waiting: share of a step that waits for its batch when the loader makes it"
        + (r"; $^\ast$: input-bound." if (table["status"].eq("timed") & table["input_bound"].eq(True)).any() else ".")
        + " Numerics only: a format for which the CPU has no units, whose time says nothing about hardware."
    )
    return longtable(columns, groups, caption=caption, label="tab:throughput")
