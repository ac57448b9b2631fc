"""Outcomes of wrong ways and remedies that nobody ran: costs and counts that are known."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import write_csv
from halfscale.analysis.practices import arm_table, run_table
from halfscale.study.config import Study
from halfscale.study.practice_records import Outcome, PracticesRecord
from halfscale.study.practices import PracticesSpec
from halfscale.study.records import Effective, Environment
from halfscale.study.runs import plan_study

CASE: dict[str, Any] = {
    "name": "made-up",
    "workload": {
        "name": "tokens",
        "model": "transformer",
        "data": "markov",
        "batch_size": 4,
        "steps": 50,
        "optimizer": {"name": "sgd", "lr": 0.1},
        "clip_norm": 1.0,
    },
    "arms": [
        {"name": "right", "precision": "fp16"},
        {"name": "full", "precision": "fp32"},
        {"name": "early", "precision": "fp16", "pitfall": "clip_before_unscale"},
        {"name": "twice", "precision": "fp16", "pitfall": "unscaled_twice"},
        {"name": "stepped", "precision": "fp16", "pitfall": "schedule_on_skipped"},
        {"name": "pure", "precision": "bf16", "pitfall": "half_weights"},
        {"name": "ignored", "precision": "fp16", "pitfall": "overflow_ignored"},
    ],
}

REFUSED = {
    "status": "refused",
    "first_bad_step": 0,
    "said": "Called already. Do not.",
    "steps": 0,
    "updates": 0,
    "skipped": 0,
    "final_scale": None,
    "first_lr": None,
    "initial_loss": None,
    "final_loss": None,
    "lost_updates": None,
    "eval_loss": None,
}
IGNORED = {
    "status": "diverged",
    "first_bad_step": 20,
    "bad_where": "buffer stem.running_mean",
    "steps": 21,
    "updates": 20,
    "skipped": 1,
    "final_loss": None,
    "eval_loss": None,
    "later_steps": 29,
    "later_finite": 29,
}
ENDINGS: dict[str, dict[str, Any]] = {
    "right": {"final_loss": 2.0},
    "full": {"final_loss": 1.75, "skipped": 0, "updates": 50, "final_scale": None},
    "early": {"final_loss": 3.0},
    "twice": REFUSED,
    "stepped": {"final_loss": 2.5, "first_lr": 0.04, "said": "Order. Look it up."},
    "pure": {"final_loss": 2.25, "lost_updates": 0.125, "skipped": 0, "updates": 50},
    "ignored": IGNORED,
}
"""By arm, what its outcomes have that is not as it usually is. A seed adds a quarter of itself to every loss."""


def make_practices_spec(name: str = "made-up") -> PracticesSpec:
    """Return the spec of the made-up case."""
    study = {
        "study": "made-up",
        "seeds": [0, 1, 2],
        "workloads": [CASE["workload"]],
        "arms": [{"name": "fp32", "precision": "fp32"}],
        "experiments": {"practices": {"cases": [CASE | {"name": name}]}},
    }
    return plan_study(Study.model_validate(study)).practices[name]


def make_practices_record(endings: Mapping[str, Mapping[str, Any]] = ENDINGS) -> PracticesRecord:
    """Return a record with these endings."""
    spec = make_practices_spec()
    return PracticesRecord(
        spec=spec,
        spec_hash=spec.hash,
        effective={treatment.arm: effective(treatment.run.precision) for treatment in spec.treatments},
        outcomes=[make_outcome(arm, run.seed, endings[arm]) for arm, run in spec.runs()],
        environment=Environment(
            torch="2.14.1",
            torchvision="0.29.1",
            python="3.11.2",
            platform="Linux-6.1-x86_64",
            device="Made-up CPU",
            cpu_capability="AVX512",
            cpu_features=[],
            native_fp16=False,
            native_bf16=True,
            commit="0" * 40,
            clean=True,
        ),
        code="c0de" * 16,
        seconds=1.0,
        steps_sha256="0" * 64,
    )


def make_outcome(arm: str, seed: int, ending: Mapping[str, Any]) -> Outcome:
    usual = {
        "arm": arm,
        "seed": seed,
        "status": "completed",
        "first_bad_step": None,
        "bad_where": None,
        "said": None,
        "steps": 50,
        "updates": 45,
        "skipped": 5,
        "growths": 0,
        "backoffs": 5,
        "final_scale": 2.0**11,
        "first_lr": 0.02,
        "initial_loss": 3.5,
        "final_excess": None,
        "lost_updates": 0.0,
        "eval_loss": 2.0,
        "later_steps": None,
        "later_finite": None,
    }
    values = usual | dict(ending)
    if values["final_loss"] is not None:
        values["final_loss"] += seed / 4
    return Outcome(**values)


def effective(precision: str) -> Effective:
    return Effective.model_validate(
        {
            "device": "cpu",
            "precision": precision,
            "fell_back": False,
            "backend": "upcast" if precision == "fp16" else "native",
            "autocast_dtype": {"fp16": "float16", "bf16": "bfloat16"}.get(precision),
            "scaler_enabled": precision == "fp16",
            "tf32_matmul": False,
            "tf32_convolution": False,
            "fp16_reduced_precision_reduction": True,
            "bf16_reduced_precision_reduction": True,
            "data": "0" * 64,
        }
    )


def write_tables_of_practices(folder: Path, records: Mapping[str, PracticesRecord] | None = None) -> None:
    """Write the tables of practices, by the name of the case."""
    records = records or {"made-up": make_practices_record()}
    for name, make in (("practices", arm_table), ("practices_runs", run_table)):
        tables = [make(case, record) for case, record in records.items()]
        write_csv(folder / f"tables/{name}.csv", pd.concat(tables, ignore_index=True))
