"""The roofline experiment: its config, its spec and its record."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from halfscale.study.arm import Precision
from halfscale.study.identity import Spec
from halfscale.study.model import Count, Model, Name
from halfscale.study.sealed import Sealed
from halfscale.study.step import Step, refuse_repeated


class RooflineCase(Step):
    """A training step whose time is predicted."""

    batch_size: Count
    """Samples in the step."""
    precisions: Annotated[list[Precision], Field(min_length=1)] = Field(default=["fp32", "tf32", "bf16", "fp16"])
    """What is predicted on each device that has it; speed-ups are taken to fp32, which must be among them."""

    @field_validator("precisions")
    @classmethod
    def has_its_reference(cls, precisions: list[Precision]) -> list[Precision]:
        refuse_repeated(precisions)
        if "fp32" not in precisions:
            raise ValueError("fp32 is missing; speed-ups are taken to it")
        return precisions


class Roofline(Model):
    """Whose time is predicted on hardware that is not here."""

    cases: Annotated[list[RooflineCase], Field(min_length=1)]
    """The steps, each of a name of its own."""

    @field_validator("cases")
    @classmethod
    def names_are_unique(cls, cases: list[RooflineCase]) -> list[RooflineCase]:
        refuse_repeated([case.name for case in cases])
        return cases


class RooflineSpec(Spec):
    """One case. The interface of the roofline instrument."""

    spec: Literal["halfscale-roofline-v1"] = "halfscale-roofline-v1"
    case: RooflineCase


class Roof(Model):
    """One training step on one device in one precision, as its data sheet bounds it."""

    device: str
    precision: Precision
    seconds: float
    """Sum over operations of the larger of FLOP over peak and bytes over bandwidth: no step is faster."""
    speedup: float
    """Seconds in fp32 over seconds in this precision."""
    matrix_share: float
    """Share of the seconds in convolutions, products and attention: what tensor cores compute."""
    compute_bound: float
    """Share of the seconds in operations bound by their FLOP and not by their bytes."""
    amdahl: float
    """The bound on the speed-up from fp32's seconds alone: 1 / ((1 - f) / 2 + f / s), where f is the share of fp32's
    seconds in what tensor cores compute and s the ratio of the peaks. All other operations gain at most 2, for bytes at
    most halve; tf32 halves none, and there it is 1 / ((1 - f) + f / s)."""


class RooflineRecord(Sealed):
    """What the roofline instrument found of one case."""

    spec: RooflineSpec
    parameters: int
    """Of the model."""
    flops: int
    """Of forward and backward pass, 2 a multiply-add, attention counted in full and not halved for its mask."""
    bytes: dict[str, int]
    """Read and written by all operations of the step, by precision."""
    roofs: list[Roof]
    code: str
    """Hash of the package sources that the record depends on."""
    seconds: float


def roofline_specs(settings: Roofline | None) -> dict[Name, RooflineSpec]:
    """Return the spec of each case by its name."""
    return {case.name: RooflineSpec(case=case) for case in (settings.cases if settings else [])}
