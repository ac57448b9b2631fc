r"""Every number that the paper may cite, by key: paper/macros.json, and the same for LaTeX in paper/macros.tex.

The paper writes \val{transformer.fp16.skipped}; a key that is not there is a TeX error. Values are LaTeX already.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.claims._verdict import KINDS
from halfscale.analysis.claims_tables import read_claims_table
from halfscale.analysis.collect import read_plan, read_summaries
from halfscale.analysis.comparison_values import equivalence_values, sensitivity_values
from halfscale.analysis.equivalence import read_equivalence_table
from halfscale.analysis.latex import escape, number, percent, scale, setting
from halfscale.analysis.memory import GIB, MIB, read_memory_tables
from halfscale.analysis.output_dtypes import Tables, read_output_dtypes_tables
from halfscale.analysis.practices import read_practices_tables
from halfscale.analysis.probe import DEFAULT, read_probe_tables
from halfscale.analysis.published import read_published_table
from halfscale.analysis.rates import has_sweep
from halfscale.analysis.roofline import read_roofline_table
from halfscale.analysis.samples import arm_samples, flushed_share, read_sample_tables
from halfscale.analysis.sensitivity import read_sensitivity_table
from halfscale.analysis.tables import MEANS, TOTALS, read_arms
from halfscale.analysis.throughput import read_throughput_table
from halfscale.study.records import Summary
from halfscale.study.runs import Roster
from halfscale.study.samples import (
    EPSILON,
    MOST_ELEMENTS,
    MOST_PREDICTIONS,
    MOST_SKETCHED,
    SKETCH_ERROR,
    SKETCH_WIDTH,
)
from halfscale.study.whole import write_text
from halfscale.study.workload import Workload

ENVIRONMENT = ("torch", "torchvision", "python", "platform", "device", "cpu_capability", "commit")

DEFINITIONS = r"""\makeatletter
\newcommand{\hsdefine}[2]{\expandafter\gdef\csname hs@#1\endcsname{#2}}
\DeclareRobustCommand{\val}[1]{%
  \ifcsname hs@#1\endcsname\csname hs@#1\endcsname
  \else\PackageError{halfscale}{No value for the key '\detokenize{#1}'}{See macros.json for the keys.}\fi}
\makeatother
"""


def write_macros(folder: Path) -> None:
    """Write paper/macros.json and paper/macros.tex of a study whose tables are written.

    Raises:
        RecordError: a plan or a summary is missing or not whole.
        OSError: tables/arms.csv is missing.
        ValueError: two values have the same key.
    """
    plan = read_plan(folder)
    found, floors = read_found(folder, plan)
    arms = read_arms(folder)
    values = unique_keys(
        [
            *study_values(plan, found),
            *(item for workload in plan.study.workloads for item in workload_values(workload, arms)),
            *((f"{workload}.floor", number(floor)) for workload, floor in floors.items()),
            *(item for arm in arms.itertuples() for item in arm_values(arm)),
            *(equivalence_values(plan, read_equivalence_table(folder)) if plan.study.experiments.equivalence else []),
            *(sensitivity_values(read_sensitivity_table(folder)) if has_sweep(plan) else []),
            *sample_values(plan.study.reference, *read_sample_tables(folder)),
            *(output_dtypes_values(read_output_dtypes_tables(folder)) if plan.output_dtypes else []),
            *(probe_values(read_probe_tables(folder)[0]) if plan.probe else []),
            *(throughput_values(read_throughput_table(folder)) if plan.throughput else []),
            *(memory_values(*read_memory_tables(folder)) if plan.memory else []),
            *(roofline_values(read_roofline_table(folder)) if plan.roofline else []),
            *published_values(read_published_table(folder)),
            *(practices_values(read_practices_tables(folder)[0]) if plan.practices else []),
            *claims_values(read_claims_table(folder)),
        ]
    )
    write_text(folder / "paper" / "macros.json", json.dumps(values, indent=1) + "\n")
    lines = [rf"\hsdefine{{{key}}}{{{text}}}" for key, text in values.items()]
    write_text(folder / "paper" / "macros.tex", DEFINITIONS + "\n".join(lines) + "\n")


def unique_keys(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the items as a mapping.

    Raises:
        ValueError: two have the same key, as when a workload a.b has an arm c and a workload a an arm b.c.
    """
    values: dict[str, str] = {}
    for key, text in items:
        if key in values:
            raise ValueError(f"two values have the key {key!r}; rename a workload or an arm")
        values[key] = text
    return values


def read_found(folder: Path, plan: Roster) -> tuple[dict[str, Counter[str]], dict[str, float | None]]:
    """Return what the distinct runs of a study say of where and how they were computed, and each workload's floor.

    Of the first, under every name, each value and how many runs have it. A floor is the lowest expected loss that any
    model can reach on the workload's data, in nats; None where it is not known.
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    floors: dict[str, float | None] = {}
    seen: set[str] = set()
    for member, summary in read_summaries(folder, plan):
        floors[member.workload] = summary.floor
        if member.run_id not in seen:
            seen.add(member.run_id)
            for name, value in said(summary).items():
                found[name][value] += 1
    return found, floors


def said(summary: Summary) -> dict[str, str]:
    """Return what one run says of where and how it was computed."""
    environment = summary.environment
    precision, backend = summary.effective.precision, summary.effective.backend
    half = {"backend": f"{precision.upper()} {backend}"} if precision in ("fp16", "bf16") else {}
    return half | {
        **{name: str(getattr(environment, name)) for name in ENVIRONMENT},
        "cpu_features": ", ".join(environment.cpu_features) or "none",
        "clean": "yes" if environment.clean else "no",
        "device_kind": summary.effective.device,
        "status": summary.status,
    }


def study_values(plan: Roster, found: Mapping[str, Counter[str]]) -> Iterator[tuple[str, str]]:
    """Yield what is true of the whole study. Where runs disagree, every distinct value is named."""
    yield "study.name", escape(plan.study.study)
    yield "study.reference", escape(plan.study.reference)
    yield "study.seeds", number(len(plan.study.seeds))
    yield "study.workloads", number(len(plan.study.workloads))
    yield "study.arms", number(len(plan.arms))
    yield "study.runs", number(found["status"].total())
    yield "study.diverged", number(found["status"]["diverged"])
    yield "study.threads", number(plan.study.threads)
    for name in (*ENVIRONMENT, "cpu_features", "clean", "device_kind"):
        yield f"study.{name}", distinct(found[name])
    yield "study.backend", distinct(found.get("backend") or ["native"])


def workload_values(workload: Workload, arms: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield a workload's settings, from the plan."""
    name = workload.name
    yield f"{name}.model", escape(workload.model)
    yield f"{name}.data", escape(workload.data)
    yield f"{name}.batch_size", number(workload.batch_size)
    yield f"{name}.accumulate", number(workload.accumulate)
    yield f"{name}.steps", number(workload.steps)
    yield f"{name}.optimizer", {"sgd": "SGD", "adamw": "AdamW"}[workload.optimizer.name]
    yield f"{name}.lr", setting(workload.optimizer.lr)
    yield f"{name}.schedule", workload.schedule.name
    yield f"{name}.warmup_steps", number(workload.schedule.warmup_steps)
    yield f"{name}.clip_norm", number(None) if workload.clip_norm is None else setting(workload.clip_norm)
    yield f"{name}.arms", number(int((arms["workload"] == name).sum()))


def arm_values(arm: Any) -> Iterator[tuple[str, str]]:
    """Yield what one arm came to, from its row of arms.csv."""
    key = f"{arm.workload}.{arm.arm}"
    yield f"{key}.n", number(int(arm.n))
    yield f"{key}.completed", number(int(arm.completed))
    yield f"{key}.diverged", number(int(arm.diverged))
    yield f"{key}.precision", escape(arm.precision)
    yield f"{key}.loss_scaling", escape(arm.loss_scaling)
    yield f"{key}.init_scale", scale(arm.init_scale)
    yield f"{key}.final_scale", scale(arm.final_scale)
    yield f"{key}.growth_interval", number(None if pd.isna(arm.growth_interval) else int(arm.growth_interval))
    yield f"{key}.growth_factor", setting(arm.growth_factor)
    yield f"{key}.backoff_factor", setting(arm.backoff_factor)
    for name in TOTALS:
        yield f"{key}.{name}", number(int(getattr(arm, name)))
    yield f"{key}.skipped_percent", percent(arm.skipped / arm.steps)
    for name in MEANS:
        share = name == "eval_accuracy"
        for suffix in ("", "_low", "_high"):
            value = float(getattr(arm, name + suffix))
            yield f"{key}.{name}{suffix}", percent(value) if share else number(value)
    for name in ("gap", "gap_low", "gap_high"):
        yield f"{key}.{name}", number(float(getattr(arm, name)))
    yield f"{key}.gap_n", number(None if pd.isna(arm.gap_n) else int(arm.gap_n))


def sample_values(reference: str, samples: pd.DataFrame, exponents: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield what the sampled steps came to: of a workload's reference, and of each arm."""
    for workload, own in exponents.groupby("workload", sort=False):
        first, last = int(own["step"].min()), int(own["step"].max())
        key = f"samples.{workload}"
        yield f"{key}.first", number(first)
        yield f"{key}.last", number(last)
        yield f"{key}.flushed_first", percent(flushed_share(exponents, str(workload), first))
        yield f"{key}.flushed_last", percent(flushed_share(exponents, str(workload), last))
        yield f"{key}.flushed_default", percent(flushed_share(exponents, str(workload), last, DEFAULT))
    for row in arm_samples(samples).to_dict("records"):
        key = f"samples.{row['workload']}.{row['arm']}"
        for name in ("lost_bf16", "lost_fp16"):
            yield f"{key}.{name}", percent(float(row[name]))
        for name in ("update_ratio", "headroom", "sharpness", "distance", "distance_ratio"):
            yield f"{key}.{name}", number(float(row[name]))
    yield "samples.error", percent(SKETCH_ERROR)
    yield "samples.epsilon", setting(EPSILON)
    yield "samples.width", number(SKETCH_WIDTH)
    yield "samples.most_sketched", scale(MOST_SKETCHED)
    yield "samples.most_elements", scale(MOST_ELEMENTS)
    yield "samples.most_predictions", number(MOST_PREDICTIONS)


def output_dtypes_values(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield how many outputs of each pass are of which dtype, and on how many operations the devices differ."""
    for row in tables.passes[tables.passes["how"] != "unavailable"].to_dict("records"):
        key = f"output_dtypes.{row['workload']}.{row['device']}.{row['precision']}"
        for name in ("outputs", "half", "fp32", "between"):
            yield f"{key}.{name}", number(int(row[name]))
        yield f"{key}.differs", number(None if pd.isna(row["differs"]) else int(row["differs"]))
    for precision, own in tables.operations.groupby("precision", sort=False):
        yield f"autocast_operations.{precision}.tried", number(len(own))
        yield f"autocast_operations.{precision}.differs", number(int(own["differs"].fillna(False).sum()))


def probe_values(windows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield what each operating window came to."""
    for row in windows.to_dict("records"):
        key = f"probe.{row['workload']}.{row['step']}"
        for name in ("plateau", "bf16_error"):
            yield f"{key}.{name}", number(float(row[name]) if pd.notna(row[name]) else None)
        for name in ("low", "high", "crossover", "layers_low", "layers_high"):
            yield f"{key}.{name}", scale(2.0 ** int(row[name]) if pd.notna(row[name]) else None)
        for name in ("bits", "layers_bits", "layers_noise", "layers_without"):
            yield f"{key}.{name}", number(int(row[name]) if pd.notna(row[name]) else None)
        for name in ("true_zero", "flushed_unscaled", "flushed_default"):
            yield f"{key}.{name}", percent(float(row[name]) if pd.notna(row[name]) else None)


def throughput_values(variants: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield what each timed variant came to, from its row of throughput.csv."""
    for row in variants[variants["status"] == "timed"].to_dict("records"):
        key = f"throughput.{row['workload']}.{row['variant']}"
        for name in (
            "step_ms",
            "samples_per_second",
            "targets_per_second",
            "speedup",
            "scaler_cost",
            "tflops",
            "least_ms",
        ):
            yield f"{key}.{name}", number(float(row[name]))
        for name in ("gemm_tflops", "copy_gb_per_second", "transfer_ms", "sm_clock_low", "sm_clock_high"):
            yield f"{key}.{name}", number(float(row[name]))
        for name in ("share_of_gemm", "mfu", "share_of_bound", "waiting", "held_back", "spread"):
            yield f"{key}.{name}", percent(float(row[name]))


def memory_values(table: pd.DataFrame, largest: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield what each prediction of memory came to, GiB unless its name says else, and each largest batch."""
    for row in table.to_dict("records"):
        key = f"memory.{row['case']}.{row['accounting']}.{row['precision']}.{row['batch_size']}"
        for name in ("peak", "activations"):
            yield f"{key}.{name}", number(float(row[name]) / GIB)
        yield f"{key}.copies", number(float(row["weight_copies"]) / MIB)  # MiB
        yield f"{key}.saved", number(float(row["saved"]) / MIB)  # MiB
        yield f"{key}.ratio", percent(float(row["ratio"]))
        yield f"{key}.residual", percent(float(row["residual"]) if pd.notna(row["residual"]) else None)
    for row in largest.to_dict("records"):
        key = f"largest_batch.{row['case']}.{row['how']}.{escape(row['device'])}.{row['precision']}"
        yield key, number(int(row["batch_size"]))


def roofline_values(table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield what each predicted time came to."""
    flops = {str(case): float(rows["flops"].iloc[0]) for case, rows in table.groupby("case", sort=False)}
    yield from ((f"roofline.{case}.gflop", number(value / 1e9)) for case, value in flops.items())
    for row in table.to_dict("records"):
        key = f"roofline.{row['case']}.{row['device']}.{row['precision']}"
        for name in ("step_ms", "speedup", "amdahl"):
            yield f"{key}.{name}", number(float(row[name]))
        for name in ("matrix_share", "compute_bound"):
            yield f"{key}.{name}", percent(float(row[name]))


def practices_values(arms: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield what each wrong way and each remedy came to."""
    for row in arms.to_dict("records"):
        key = f"practices.{row['case']}.{row['arm']}"
        for name in ("n", "completed", "diverged", "refused", "steps", "updates", "skipped"):
            yield f"{key}.{name}", number(int(row[name]))
        yield f"{key}.first_bad_step", number(int(row["first_bad_step"]) if pd.notna(row["first_bad_step"]) else None)
        yield f"{key}.lost_updates", percent(float(row["lost_updates"]))
        yield f"{key}.final_scale", scale(float(row["final_scale"]))
        for name in ("first_lr", "final_loss", "cost", "cost_low", "cost_high", "eval_loss"):
            yield f"{key}.{name}", number(float(row[name]))


def published_values(table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield what others published, with the digits that they gave it, and the ratios that follow from it."""
    for row in table.to_dict("records"):
        key = f"published.{row['key']}"
        for name in ("baseline", "half"):
            yield f"{key}.{name}", setting(float(row[f"{name}_value"]))
            yield f"{key}.{name}_spread", setting(float(row[f"{name}_spread"]))
        for name in ("ratio", "bound_fp32", "bound_tf32"):
            yield f"{key}.{name}", number(float(row[name]))
        yield f"{key}.memory_ratio", percent(float(row["memory_ratio"]))


def claims_values(claims: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield how many claims came to which verdict, and each one's estimate."""
    yield "claims.count", number(len(claims))
    for kind in KINDS:
        yield f"claims.{kind.replace(' ', '_')}", number(int((claims["verdict"] == kind).sum()))
    for row in claims.to_dict("records"):
        for name in ("estimate", "low", "high"):
            yield f"claims.{row['id']}.{name}", number(float(row[name]))


def distinct(values: Iterable[str]) -> str:
    """Return the distinct values, in order, as one text."""
    return escape(", ".join(sorted(set(values))))
