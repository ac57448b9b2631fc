"""From a study to its runs: expansion, canonical form, identity and paths.

A run's identity is what it computes, never what an arm or a workload is called. Two arms that differ only in
settings without effect are therefore one run, at one path, whatever route it was written by.
"""

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import Field

from halfscale.study.arm import Arm, DynamicLossScaling, Inject, NoLossScaling, Precision, StaticLossScaling
from halfscale.study.config import Study
from halfscale.study.model import Model, Name
from halfscale.study.sweep import expand_sweeps
from halfscale.study.workload import Optimizer, Schedule, Workload


class RunSpec(Model):
    """Everything that decides what a run computes, and nothing else. The interface of the train instrument."""

    # v1 is the version of the spec's meaning, not of its keys: a change to what the same keys
    # compute raises it, so that no older result is taken for a new one.
    spec: Literal["halfscale-run-v1"] = "halfscale-run-v1"
    model: str
    model_args: dict[str, Any]
    data: str
    data_args: dict[str, Any]
    batch_size: int
    accumulate: int
    steps: int
    optimizer: Optimizer
    schedule: Schedule
    clip_norm: float | None
    memory_format: Literal["contiguous", "channels_last"]
    precision: Precision
    loss_scaling: Annotated[DynamicLossScaling | StaticLossScaling | NoLossScaling, Field(discriminator="kind")]
    perturb: Literal["none", "ulp"]
    fallback: Literal["none", "fp32"]
    inject: Inject | None
    seed: int
    device: Literal["auto", "cpu", "cuda"]
    backend: Literal["auto", "native", "upcast"]
    threads: int

    def canonical(self) -> str:
        """Return the spec as JSON with sorted keys: the same text for the same experiment."""
        return json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    @property
    def run_id(self) -> str:
        """Return the run's folder name, such as resnet50_fp16-dynamic_seed0_1f0c9a2b7d."""
        model = re.sub(r"[^A-Za-z0-9]+", "-", self.model).strip("-")
        scaling = "" if self.loss_scaling.kind == "none" else f"-{self.loss_scaling.kind}"
        return f"{model}_{self.precision}{scaling}_seed{self.seed}_{self.hash[:10]}"


class Member(Model):
    """A run's place in a study: which workload and which arm it stands for."""

    workload: Name
    arm: Name
    seed: int
    run_id: str


class Plan(Model):
    """A study expanded: its members in config order, and its distinct runs."""

    study: Study
    arms: list[Arm]
    """All arms, those of sweeps included, in the order that tables and figures keep."""
    members: list[Member]
    runs: dict[str, RunSpec]
    """By run id."""

    def to_json(self) -> str:
        """Return the plan as JSON text, the same for the same study."""
        return json.dumps(self.model_dump(), indent=1, allow_nan=False) + "\n"


def plan_study(study: Study) -> Plan:
    """Expand a study into runs: workload x arm x seed."""
    arms = expand_sweeps(study.arms, study.sweeps)
    members: list[Member] = []
    runs: dict[str, RunSpec] = {}
    for workload in study.workloads:
        for arm in arms:
            if arm.workloads is not None and workload.name not in arm.workloads:
                continue
            for seed in study.seeds:
                spec = make_spec(study, workload, arm, seed)
                run_id = spec.run_id
                runs[run_id] = spec
                members.append(Member(workload=workload.name, arm=arm.name, seed=seed, run_id=run_id))
    return Plan(study=study, arms=arms, members=members, runs=runs)


def make_spec(study: Study, workload: Workload, arm: Arm, seed: int) -> RunSpec:
    """Return the spec of one run."""
    return RunSpec(
        **{name: getattr(workload, name) for name in Workload.model_fields if name != "name"},
        precision=arm.precision,
        loss_scaling=arm.effective_loss_scaling,
        perturb=arm.perturb,
        fallback=arm.fallback,
        inject=arm.inject,
        seed=seed,
        device=study.device,
        backend=study.backend,
        threads=study.threads,
    )
