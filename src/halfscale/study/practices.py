"""The practices experiment: wrong ways and remedies, each held against another arm of its block. Config and spec."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from halfscale.study.arm import Arm
from halfscale.study.fit import check_fit
from halfscale.study.identity import Spec
from halfscale.study.model import Model, Name
from halfscale.study.spec import RunSpec
from halfscale.study.step import refuse_repeated
from halfscale.study.workload import Workload


class PracticesCase(Model):
    """Arms on a workload of their own, all held against one of them."""

    name: Name
    """What the case is called in tables and figures."""
    workload: Workload
    """What is trained; with all seeds of the study, if it names none."""
    arms: Annotated[list[Arm], Field(min_length=2)]
    """How it is trained. An arm with a pitfall is a wrong way, and is called one wherever it appears."""
    reference: Name | None = None
    """The arm that the others are held against; the first one when left out."""

    @property
    def compared_with(self) -> Name:
        """The name of the arm that the others are held against."""
        return self.reference or self.arms[0].name

    @model_validator(mode="after")
    def arms_fit(self) -> Self:
        names = [arm.name for arm in self.arms]
        refuse_repeated(names)
        if self.compared_with not in names:
            raise ValueError(f"reference = {self.reference!r}: no such arm; allowed: {', '.join(names)}")
        for arm in self.arms:
            check_fit(arm, self.workload)
            if arm.workloads is not None:
                raise ValueError(f"arms[{arm.name}].workloads: an arm of a case is for its workload; leave it out")
            if arm.pitfall and arm.name == self.compared_with:
                raise ValueError(f"arms[{arm.name}].pitfall: a wrong way is nothing to hold others against")
        return self


class Practices(Model):
    """Which wrong ways and which remedies are measured."""

    cases: Annotated[list[PracticesCase], Field(min_length=1)]
    """Each of a name of its own."""

    @field_validator("cases")
    @classmethod
    def names_are_unique(cls, cases: list[PracticesCase]) -> list[PracticesCase]:
        refuse_repeated([case.name for case in cases])
        return cases


class Treatment(Model):
    """An arm of a case."""

    arm: Name
    run: RunSpec
    """Its run with the first seed."""


class PracticesSpec(Spec):
    """One case. The interface of the practices instrument."""

    spec: Literal["halfscale-practices-v1"] = "halfscale-practices-v1"
    reference: Name
    """The arm that the others are held against."""
    seeds: Annotated[list[int], Field(min_length=1)]
    """One block each."""
    treatments: Annotated[list[Treatment], Field(min_length=1)]
    """In the order of the config."""

    def runs(self) -> list[tuple[Name, RunSpec]]:
        """Return every run with the name of its arm, in order: all seeds of an arm, then those of the next."""
        return [
            (treatment.arm, treatment.run.model_copy(update={"seed": seed}))
            for treatment in self.treatments
            for seed in self.seeds
        ]
