"""The probe experiment: gradients of one batch at fixed weights, in every format and at every scale. Config and spec."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from halfscale.study.identity import Spec
from halfscale.study.model import Count, Model, Name
from halfscale.study.spec import RunSpec
from halfscale.study.step import refuse_repeated

Exponent = Annotated[int, Field(ge=-126, le=126)]


ASKED = (0, 16)
"""Exponents of no scaling and of GradScaler's default, 2^16."""


class Probe(Model):
    """Which gradients are looked at."""

    workloads: Annotated[list[Name], Field(min_length=1)] | None = None
    """The workloads that are probed; all of them when left out."""
    at: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1)] = Field(default=[0.0, 0.5, 1.0])
    """Where on the reference's run the weights are taken: 0 is its start, 1 its end."""
    lowest: Exponent = -16
    """Exponent of the smallest scale, a power of two."""
    highest: Exponent = 24
    """Exponent of the largest scale."""
    every: Count = 2
    """Exponents from one scale to the next, 0 and 16 besides; the largest that does not overflow is then found to one."""

    @field_validator("at")
    @classmethod
    def in_order(cls, at: list[float]) -> list[float]:
        refuse_repeated(at)
        return sorted(at)

    @model_validator(mode="after")
    def scales_make_a_range(self) -> Self:
        if self.lowest >= self.highest:
            raise ValueError(f"lowest = {self.lowest} is not below highest = {self.highest}; allowed: a smaller one")
        return self

    @property
    def exponents(self) -> list[int]:
        """Exponents of the scales, in order: every so many, and those that are asked about whatever lies on the grid."""
        asked = {exponent for exponent in ASKED if self.lowest <= exponent <= self.highest}
        return sorted({*range(self.lowest, self.highest + 1, self.every), *asked})


class ProbeSpec(Spec):
    """One workload. The interface of the probe instrument."""

    spec: Literal["halfscale-probe-v1"] = "halfscale-probe-v1"
    run: RunSpec
    """The reference's run, whose weights are probed: strict FP32."""
    steps: list[int]
    """Optimizer steps after which its weights are probed, in order; 0 is its initial weights."""
    exponents: list[int]
    """Of the scales, in order."""


def probe_spec(settings: Probe, run: RunSpec) -> ProbeSpec:
    """Return the spec that probes a run's weights."""
    steps = dict.fromkeys(round(part * run.steps) for part in settings.at)
    return ProbeSpec(run=run, steps=list(steps), exponents=settings.exponents)
