"""The typed config of a study. An instance is always valid.

Field names are the field's own terms and stay the same in tables, figures and the paper.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from halfscale.study.arm import Arm
from halfscale.study.experiments import Experiments
from halfscale.study.fit import check_fit
from halfscale.study.model import Count, Model, Name
from halfscale.study.sweep import Sweep, expand_sweeps
from halfscale.study.workload import Workload


class Study(Model):
    """One config file, one results folder."""

    study: Name
    """The study's name; results go to results/<study>/."""
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    """auto takes the GPU where there is one. Results of the two are never pooled."""
    backend: Literal["auto", "native", "upcast"] = "auto"
    """How a CPU computes products in FP16 and BF16; auto takes native where it has units for it. Ignored on CUDA."""
    threads: Annotated[int, Field(gt=0, le=1024)] = 1
    """CPU threads of one run. One keeps results independent of the core count."""
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]
    """One block each: the same initial weights and the same batches for every arm."""
    seeds_per_job: Count = 1
    """Seeds of an arm that one job trains, one after another, so that short runs pay for a process's start once."""
    reference: Name = "fp32"
    """The arm that every other one is compared with."""
    workloads: Annotated[list[Workload], Field(min_length=1)]
    """What is trained."""
    arms: Annotated[list[Arm], Field(min_length=1)]
    """How it is trained; tables and figures keep this order."""
    sweeps: list[Sweep] = Field(default=[])
    """More arms, written as factorials."""
    experiments: Experiments = Experiments()
    """What is measured beside the training runs."""

    @field_validator("study")
    @classmethod
    def not_reserved(cls, name: str) -> str:
        if name == "reference":
            raise ValueError("results/reference is kept for committed results; choose another name")
        return name

    @field_validator("seeds")
    @classmethod
    def seeds_are_unique(cls, seeds: list[int]) -> list[int]:
        refuse_duplicates("", seeds)
        return seeds

    @model_validator(mode="after")
    def names_fit_together(self) -> Self:
        workloads = [workload.name for workload in self.workloads]
        arms = expand_sweeps(self.arms, self.sweeps)
        refuse_duplicates("workloads: name ", workloads)
        refuse_duplicates("sweeps: name ", [sweep.name for sweep in self.sweeps])
        refuse_duplicates("arms: name ", [arm.name for arm in arms])
        for arm in arms:
            if arm.pitfall:
                raise ValueError(
                    f"arms[{arm.name}].pitfall = {arm.pitfall!r}: a wrong way is no arm of the study; allowed: in the "
                    "arms of experiments.practices, where it is called one"
                )
            for name in arm.workloads or []:
                refuse_unknown(f"arms[{arm.name}].workloads: ", name, "workload", workloads)
        watched = self.experiments.output_dtypes
        for name in (watched.workloads if watched else None) or []:
            refuse_unknown("experiments.output_dtypes.workloads: ", name, "workload", workloads)
        probe = self.experiments.probe
        for name in (probe.workloads if probe else None) or []:
            refuse_unknown("experiments.probe.workloads: ", name, "workload", workloads)
        throughput = self.experiments.throughput
        if throughput is not None:
            for name in throughput.workloads or []:
                refuse_unknown("experiments.throughput.workloads: ", name, "workload", workloads)
            for name in throughput.levels_of:
                timed = throughput.workloads or workloads
                refuse_unknown("experiments.throughput.levels_of: ", name, "workload that is timed", timed)
        equivalence = self.experiments.equivalence
        for name in equivalence.margin_of if equivalence else []:
            refuse_unknown("experiments.equivalence.margin_of: ", name, "workload", workloads)
        practices = self.experiments.practices
        for workload in [*self.workloads, *(case.workload for case in (practices.cases if practices else []))]:
            refuse_duplicates(f"workloads[{workload.name}].seeds: ", workload.seeds or [])
            for seed in workload.seeds or []:
                if seed not in self.seeds:
                    allowed = ", ".join(map(str, self.seeds))
                    raise ValueError(
                        f"workloads[{workload.name}].seeds: {seed} is no seed of the study; allowed: {allowed}"
                    )
        for workload in self.workloads:
            for job in self.jobs():
                shared = [seed for seed in job if seed in self.seeds_of(workload)]
                if shared and shared != job:
                    raise ValueError(
                        f"workloads[{workload.name}].seeds: one job trains seeds {', '.join(map(str, job))} "
                        f"(seeds_per_job = {self.seeds_per_job}), and these are only some of them; "
                        "allowed: all of a job's seeds or none"
                    )
            members = [arm for arm in arms if arm.workloads is None or workload.name in arm.workloads]
            check_reference(self.reference, workload.name, members)
            for arm in members:
                check_fit(arm, workload)
        return self

    def seeds_of(self, workload: Workload) -> list[int]:
        """Return the blocks of a workload, in the study's order."""
        return [seed for seed in self.seeds if workload.seeds is None or seed in workload.seeds]

    def jobs(self) -> list[list[int]]:
        """Return the seeds that a job trains of an arm, of each job, in the study's order."""
        return [
            self.seeds[first : first + self.seeds_per_job] for first in range(0, len(self.seeds), self.seeds_per_job)
        ]


def refuse_duplicates(what: str, values: Iterable[Any]) -> None:
    """Raise ValueError naming the first value that stands twice; `what` leads the message."""
    for value, count in Counter(values).items():
        if count > 1:
            raise ValueError(f"{what}{value!r} is used {count} times; each must be unique")


def refuse_unknown(what: str, name: str, kind: str, allowed: Sequence[str]) -> None:
    """Raise ValueError if a name is none of those allowed; `what` leads the message."""
    if name not in allowed:
        raise ValueError(f"{what}{name!r} is no {kind}; allowed: {', '.join(allowed)}")


def check_reference(reference: str, workload: str, arms: list[Arm]) -> None:
    """Raise ValueError unless the arms of a workload hold a plain FP32 reference."""
    found = [arm for arm in arms if arm.name == reference]
    if not found:
        names = ", ".join(arm.name for arm in arms) or "none"
        raise ValueError(f"reference = {reference!r}: workload {workload!r} has no such arm; its arms: {names}")
    arm = found[0]
    scaled = arm.effective_loss_scaling.kind != "none"
    changed = arm.lr_factor != 1 or arm.perturb != "none" or arm.inject or arm.layer_scales
    if arm.precision != "fp32" or changed or scaled:
        raise ValueError(
            f"arms[{reference}]: the reference must be plain: precision fp32, no lr_factor, no perturb, no inject, "
            "no layer_scales, no loss scaling"
        )
