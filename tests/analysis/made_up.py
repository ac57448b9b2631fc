"""A finished study that nobody trained: numpy-made traces that obey GradScaler's automaton, and their summaries.

Everything goes through halfscale.study.records, so whatever those checks refuse cannot be made up here either.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from made_up_samples import make_samples

from halfscale.analysis.columns import COLUMNS
from halfscale.study.config import Study
from halfscale.study.records import (
    Effective,
    Environment,
    Summary,
    final_steps,
    finite_or_none,
    write_summary,
    write_trace,
)
from halfscale.study.runs import Plan, RunSpec, plan_study
from halfscale.study.samples import write_samples
from halfscale.study.whole import write_text

SETTINGS: dict[str, Any] = {
    "study": "made-up",
    "device": "cpu",
    "seeds": [0, 1, 2],
    "workloads": [
        {
            "name": "resnet50",
            "model": "resnet50",
            "data": "digits",
            "batch_size": 16,
            "steps": 40,
            "sample_every": 10,
            "optimizer": {"name": "sgd", "lr": 0.01},
        },
        {
            "name": "transformer",
            "model": "transformer",
            "data": "markov",
            "batch_size": 8,
            "steps": 60,
            "sample_every": 5,
            "optimizer": {"name": "adamw", "lr": 0.001},
        },
    ],
    "arms": [
        {"name": "fp32", "precision": "fp32"},
        {"name": "fp32-ulp", "precision": "fp32", "perturb": "ulp"},
        {"name": "bf16", "precision": "bf16"},
        {"name": "fp16", "precision": "fp16", "loss_scaling": {"kind": "dynamic", "growth_interval": 5}},
        {"name": "fp16-unscaled", "precision": "fp16", "loss_scaling": {"kind": "none"}},
        {
            "name": "fp16-init-2e24",
            "precision": "fp16",
            "loss_scaling": {"kind": "dynamic", "init_scale": 2.0**24, "growth_interval": 20},
        },
        {"name": "fp16-static-2e10", "precision": "fp16", "loss_scaling": {"kind": "static", "scale": 1024.0}},
        {
            "name": "fp16_injected",
            "precision": "fp16",
            "loss_scaling": {"kind": "static", "scale": 512.0},
            "inject": {"kind": "inf_gradient", "steps": [7, 30]},
        },
        {"name": "bf16-fallback", "precision": "bf16", "fallback": "fp32"},
        {
            "name": "bf16-scaled",
            "precision": "bf16",
            "loss_scaling": {"kind": "dynamic", "growth_interval": 5, "always": True},
            "workloads": ["transformer"],
        },
    ],
}

DIVERGED: dict[str, Sequence[int]] = {"fp16-unscaled": [1], "fp16-static-2e10": [0, 1, 2]}
"""By arm, the seeds whose runs diverge, of the workload `resnet50` alone."""

FELL_BACK = "bf16-fallback"
FLOOR = 2.25
"""Loss of the oracle, nats, of the workload `transformer`; the other has none."""
OVERFLOW = 65520.0
"""The smallest magnitude that rounds to infinity in FP16."""


def every_column(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with every column that a study's tables/<name>.csv has, those that it lacks empty."""
    return table.reindex(columns=list(dict.fromkeys([*table.columns, *COLUMNS[name].split()])))


def make_study_folder(
    folder: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    arms: Sequence[str] | None = None,
    diverged: Mapping[str, Sequence[int]] = DIVERGED,
) -> Plan:
    """Write a finished study: plan.json and runs/<run_id>/{trace.parquet,samples.parquet,summary.json}.

    Args:
        folder: the study's results folder.
        seeds: its blocks.
        arms: names of the arms to keep; all when left out.
        diverged: by arm, the seeds whose runs diverge in the workload resnet50.
    """
    kept = [arm for arm in SETTINGS["arms"] if arms is None or arm["name"] in arms]
    plan = plan_study(Study.model_validate(SETTINGS | {"seeds": list(seeds), "arms": kept}))
    write_text(folder / "plan.json", plan.to_json())
    for member in plan.members:
        with_oracle = member.workload == "transformer"
        bad = not with_oracle and member.seed in diverged.get(member.arm, ())
        offset = 0.002 * [arm.name for arm in plan.arms].index(member.arm) * (1 + member.seed / 4)
        spec = plan.runs[member.run_id]
        trace = make_trace(spec, with_oracle=with_oracle, offset=offset, bad_step=spec.steps // 2 if bad else None)
        write_run(folder / "runs" / member.run_id, spec, trace, fell_back=member.arm == FELL_BACK)
    return plan


def make_trace(
    spec: RunSpec, *, with_oracle: bool = False, offset: float = 0.0, bad_step: int | None = None
) -> pd.DataFrame:
    """Return a trace (columns as in records.TRACE) whose scale follows GradScaler's automaton.

    A step overflows where scale x max |gradient| reaches 65520, and where the spec injects it.
    The loss falls exponentially, `offset` nats above the same seed's FP32 run; at `bad_step` it is NaN and the
    trace ends.
    """
    noise = np.random.default_rng(spec.seed)
    steps = spec.steps
    jitter = 0.02 * noise.standard_normal(steps)
    oracle = FLOOR + jitter if with_oracle else None
    loss = FLOOR + jitter + (1 + spec.seed / 8) * np.exp(-np.arange(steps) / 10) + offset
    grad_max = 1.5 * 2.0 ** (0.4 * noise.standard_normal(steps))

    scaling = spec.loss_scaling
    scale = {"dynamic": getattr(scaling, "init_scale", None), "static": getattr(scaling, "scale", None)}.get(
        scaling.kind
    )
    limit = OVERFLOW if spec.precision == "fp16" else math.inf
    injected = set(spec.inject.steps) if spec.inject else set()
    clean = updates = 0
    rows = []
    for step in range(steps):
        overflow = step in injected or (scale is not None and scale * grad_max[step] >= limit)
        skipped = overflow and scale is not None
        updates += not skipped
        row = {
            "step": step,
            "loss": math.nan if step == bad_step else loss[step],
            "oracle_loss": None if oracle is None else oracle[step],
            "lr": spec.optimizer.lr,
            "scale": scale,
            "overflow": overflow,
            "skipped": skipped,
            "growth": False,
            "backoff": False,
            "updates": updates,
            "grad_norm": math.inf if overflow else 10 * grad_max[step],
            "grad_max": None if step % 5 else (math.inf if overflow else grad_max[step]),
            "bad_parameter": "head.weight" if overflow else None,
            "bad_pass": ("forward" if step == bad_step else "backward") if overflow else None,
        }
        if scaling.kind == "dynamic":
            clean = 0 if overflow else clean + 1
            row["backoff"] = overflow
            row["growth"] = clean == scaling.growth_interval
            if row["backoff"]:
                scale *= scaling.backoff_factor
            if row["growth"]:
                scale *= scaling.growth_factor
                clean = 0
        rows.append(row)
        if step == bad_step:
            break
    return pd.DataFrame(rows).astype({"step": "int32", "updates": "int32"})


def write_run(
    folder: Path,
    spec: RunSpec,
    trace: pd.DataFrame,
    *,
    fell_back: bool = False,
    effective: Mapping[str, Any] | None = None,
    environment: Mapping[str, Any] | None = None,
) -> Summary:
    """Write a run's trace and the summary that fits it; `effective` and `environment` replace made-up fields."""
    digest = write_trace(trace, spec, folder / "trace.parquet")
    samples = write_samples(make_samples(spec, trace), len(trace), spec, folder / "samples.parquet")
    summary = summarize(spec, trace, digest, fell_back, effective or {}, environment or {}, samples)
    write_summary(summary, folder / "summary.json")
    return summary


def summarize(
    spec: RunSpec,
    trace: pd.DataFrame,
    digest: str,
    fell_back: bool,
    effective: Mapping[str, Any],
    environment: Mapping[str, Any],
    samples_digest: str = "0" * 64,
) -> Summary:
    finite = bool(np.isfinite(trace["loss"]).all())
    last = trace.tail(final_steps(len(trace)))
    excess = (last["loss"] - last["oracle_loss"].astype(float)).mean() if finite else None
    final = float(last["loss"].mean()) if finite else None
    scaled = spec.loss_scaling.kind != "none"
    precision = "fp32" if fell_back else spec.precision
    return Summary(
        run_id=spec.run_id,
        spec=spec,
        spec_hash=spec.hash,
        status="completed" if finite else "diverged",
        first_bad_step=None if finite else len(trace) - 1,
        bad_where=None if finite else "loss",
        steps=len(trace),
        updates=int(trace["updates"].iloc[-1]),
        skipped=int(trace["skipped"].sum()),
        overflows=int(trace["overflow"].sum()),
        growths=int(trace["growth"].sum()),
        backoffs=int(trace["backoff"].sum()),
        init_scale=float(trace["scale"].iloc[0]) if scaled else None,
        final_scale=scale_after(spec, trace) if scaled else None,
        initial_loss=finite_or_none(float(trace["loss"].iloc[0])),
        final_loss=final,
        final_excess=finite_or_none(excess),
        floor=2.25 if spec.data == "markov" else None,
        eval_loss=None if final is None else final + 0.01,
        eval_excess=None if finite_or_none(excess) is None else float(excess) + 0.01,
        eval_accuracy=None if final is None else 0.5,
        effective=Effective(
            **{
                "device": "cpu",
                "precision": precision,
                "fell_back": fell_back,
                "backend": "upcast" if precision == "fp16" else "native",
                "autocast_dtype": {"fp16": "float16", "bf16": "bfloat16"}.get(precision),
                "scaler_enabled": scaled,
                "tf32_matmul": False,
                "tf32_convolution": False,
                "fp16_reduced_precision_reduction": True,
                "bf16_reduced_precision_reduction": True,
                "data": hashlib.sha256(spec.data.encode()).hexdigest(),
                **effective,
            }
        ),
        environment=Environment(
            **{
                "torch": "2.14.1",
                "torchvision": "0.29.1",
                "python": "3.11.2",
                "platform": "Linux-6.1-x86_64",
                "device": "Made-up CPU",
                "cpu_capability": "AVX512",
                "cpu_features": ["avx512_bf16"],
                "native_fp16": False,
                "native_bf16": True,
                "commit": "0123456789abcdef0123456789abcdef01234567",
                "clean": True,
                **environment,
            }
        ),
        code="c0de" * 16,
        seconds=1.0,
        trace_sha256=digest,
        samples_sha256=samples_digest,
    )


def scale_after(spec: RunSpec, trace: pd.DataFrame) -> float:
    """Return the scale after the last step of a trace."""
    last = trace.iloc[-1]
    if last["growth"]:
        return float(last["scale"] * spec.loss_scaling.growth_factor)
    if last["backoff"]:
        return float(last["scale"] * spec.loss_scaling.backoff_factor)
    return float(last["scale"])
