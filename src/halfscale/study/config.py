"""The typed config of a study. An instance is always valid.

Field names are the field's own terms and stay the same in tables, figures and the paper.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from halfscale.study.arm import Arm
from halfscale.study.model import Model, Name
from halfscale.study.sweep import Sweep, expand_sweeps
from halfscale.study.workload import Workload


class Study(Model):
    """One config file, one results folder."""

    study: Name
    """The study's name; results go to results/<study>/."""
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    backend: Literal["auto", "native", "upcast"] = "auto"
    """How a CPU computes FP16 products; auto takes native where the CPU has FP16 units. Ignored on CUDA."""
    threads: int = Field(default=1, gt=0)
    """CPU threads of one run. One keeps results independent of the core count."""
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]
    """One block each: the same initial weights and the same batches for every arm."""
    reference: Name = "fp32"
    """The arm that every other one is compared with."""
    workloads: Annotated[list[Workload], Field(min_length=1)]
    arms: Annotated[list[Arm], Field(min_length=1)]
    sweeps: list[Sweep] = []

    @field_validator("study")
    @classmethod
    def not_reserved(cls, name: str) -> str:
        if name == "reference":
            raise ValueError("results/reference is kept for committed results; choose another name")
        return name

    @field_validator("seeds")
    @classmethod
    def seeds_are_unique(cls, seeds: list[int]) -> list[int]:
        refuse_duplicates("seed", seeds)
        return seeds

    @model_validator(mode="after")
    def names_fit_together(self) -> Self:
        workloads = [workload.name for workload in self.workloads]
        arms = expand_sweeps(self.arms, self.sweeps)
        refuse_duplicates("workload name", workloads)
        refuse_duplicates("sweep name", [sweep.name for sweep in self.sweeps])
        refuse_duplicates("arm name", [arm.name for arm in arms])
        for arm in arms:
            for name in arm.workloads or []:
                if name not in workloads:
                    raise ValueError(f"arm {arm.name!r} is for workload {name!r}; allowed: {', '.join(workloads)}")
        for workload in self.workloads:
            members = [arm for arm in arms if arm.workloads is None or workload.name in arm.workloads]
            check_reference(self.reference, workload.name, members)
            for arm in members:
                if arm.inject and arm.inject.steps[-1] >= workload.steps:
                    raise ValueError(
                        f"arm {arm.name!r} injects at step {arm.inject.steps[-1]}, but workload {workload.name!r} "
                        f"has steps 0 to {workload.steps - 1}"
                    )
        return self


def refuse_duplicates(what: str, values: Iterable[Any]) -> None:
    """Raise ValueError naming the first value that stands twice."""
    for value, count in Counter(values).items():
        if count > 1:
            raise ValueError(f"{what} {value!r} is used {count} times; each must be unique")


def check_reference(reference: str, workload: str, arms: list[Arm]) -> None:
    """Raise ValueError unless the arms of a workload hold an untouched FP32 reference."""
    found = [arm for arm in arms if arm.name == reference]
    if not found:
        names = ", ".join(arm.name for arm in arms) or "none"
        raise ValueError(f"workload {workload!r} has no reference arm {reference!r}; its arms: {names}")
    if found[0].precision != "fp32" or found[0].perturb != "none" or found[0].inject:
        raise ValueError(f"reference arm {reference!r} must be precision fp32 with neither perturb nor inject")
