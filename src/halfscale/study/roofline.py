"""The roofline experiment: its config and its spec."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from halfscale.study.arm import Precision
from halfscale.study.identity import Spec
from halfscale.study.model import Count, Model, Name
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


def roofline_specs(settings: Roofline | None) -> dict[Name, RooflineSpec]:
    """Return the spec of each case by its name."""
    return {case.name: RooflineSpec(case=case) for case in (settings.cases if settings else [])}
