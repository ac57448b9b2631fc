"""The memory experiment: its config and its spec."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from halfscale.study.identity import Spec
from halfscale.study.model import Count, Model, Name
from halfscale.study.step import Predicted, Step, refuse_repeated


class MemoryCase(Step):
    """A training step whose memory is predicted."""

    batch_sizes: Annotated[list[Count], Field(min_length=1)]
    """Batch sizes that are predicted; they need not fit in this machine."""
    precisions: Annotated[list[Predicted], Field(min_length=1)] = Field(default=["fp32", "bf16"])
    """What is predicted at each batch size; fp16 takes as much as bf16."""
    measure: list[Count] = Field(default=[])
    """Those of batch_sizes that are also run on this machine, each in a fresh process, and held against the prediction."""
    search: bool = False
    """Whether the largest batch that runs is searched for on this machine's GPU, in a fresh process a try."""

    @model_validator(mode="after")
    def measured_is_predicted(self) -> Self:
        for batch in self.measure:
            if batch not in self.batch_sizes:
                raise ValueError(f"measure: {batch} is not predicted; allowed: {', '.join(map(str, self.batch_sizes))}")
        return self

    @field_validator("batch_sizes", "precisions", "measure")
    @classmethod
    def unique(cls, values: list[int] | list[Predicted]) -> list[int] | list[Predicted]:
        refuse_repeated(values)
        return values


class Memory(Model):
    """Whose memory is predicted."""

    cases: Annotated[list[MemoryCase], Field(min_length=1)]
    """The steps, each of a name of its own."""

    @field_validator("cases")
    @classmethod
    def names_are_unique(cls, cases: list[MemoryCase]) -> list[MemoryCase]:
        refuse_repeated([case.name for case in cases])
        return cases


class MemorySpec(Spec):
    """One case. The interface of the memory instrument."""

    spec: Literal["halfscale-memory-v1"] = "halfscale-memory-v1"
    case: MemoryCase
    device: Literal["auto", "cpu", "cuda"]
    """Of what is measured; a prediction needs none."""


def memory_specs(settings: Memory | None, device: Literal["auto", "cpu", "cuda"]) -> dict[Name, MemorySpec]:
    """Return the spec of each case by its name."""
    return {case.name: MemorySpec(case=case, device=device) for case in (settings.cases if settings else [])}
