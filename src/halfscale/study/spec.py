"""The spec of a run: its canonical form and its identity.

A run's identity is what it computes, never what an arm or a workload is called. Two arms that differ only in
settings without effect are therefore one run, at one path, whatever route it was written by.
"""

import hashlib
import re
from typing import Annotated, Any, Literal

from pydantic import Field

from halfscale.study.arm import DynamicLossScaling, Inject, NoLossScaling, Pitfall, Precision, StaticLossScaling
from halfscale.study.identity import Spec
from halfscale.study.model import Count
from halfscale.study.workload import Optimizer, Schedule


class RunSpec(Spec):
    """Everything that decides what a run computes, and nothing else. The interface of the train instrument."""

    # v1 is the version of the spec's meaning, not of its keys: a change to what the same keys
    # compute raises it, so that no older result is taken for a new one.
    spec: Literal["halfscale-run-v1"] = "halfscale-run-v1"
    model: str
    model_args: dict[str, Any]
    data: str
    data_args: dict[str, Any]
    batch_size: Count
    accumulate: Count
    steps: Count
    optimizer: Optimizer
    schedule: Schedule
    clip_norm: Annotated[float, Field(gt=0)] | None
    sample_every: Count = 25
    memory_format: Literal["contiguous", "channels_last"]
    precision: Precision
    loss_scaling: Annotated[DynamicLossScaling | StaticLossScaling | NoLossScaling, Field(discriminator="kind")]
    perturb: Literal["none", "ulp"]
    reduced_precision_reduction: bool = True
    fallback: Literal["none", "fp32"]
    inject: Inject | None
    pitfall: Pitfall | None = None
    fp32_modules: list[str] = Field(default=[])
    layer_scales: dict[str, float] = Field(default={})
    loss_factor: float = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    device: Literal["auto", "cpu", "cuda"]
    backend: Literal["auto", "native", "upcast"]
    threads: Count

    @property
    def cell(self) -> str:
        """Return what the runs of all seeds have in common, such as resnet50_fp16-dynamic_1f0c9a2b7d."""
        model = re.sub(r"[^A-Za-z0-9]+", "-", self.model).strip("-")
        scaling = "" if self.loss_scaling.kind == "none" else f"-{self.loss_scaling.kind}"
        digest = hashlib.sha256(self.canonical(without=["seed"]).encode()).hexdigest()
        return f"{model}_{self.precision}{scaling}_{digest[:10]}"

    @property
    def run_id(self) -> str:
        """Return the run's folder name, such as resnet50_fp16-dynamic_1f0c9a2b7d_seed0."""
        return f"{self.cell}_seed{self.seed}"
