"""The memory experiment: its config, its spec and its record."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from halfscale.study.identity import Spec
from halfscale.study.model import Count, Model, Name
from halfscale.study.records import Environment
from halfscale.study.sealed import Sealed
from halfscale.study.step import KINDS, Predicted, Step, refuse_repeated


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


class KindBytes(Model):
    """Bytes of each kind at one moment."""

    weights: int
    gradients: int
    optimizer: int
    inputs: int
    activations: int
    weight_copies: int
    temporaries: int

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(getattr(self, kind) for kind in KINDS)


class Prediction(Model):
    """The peak of one training step."""

    accounting: Literal["cpu", "cuda"]
    """Whose autocast decides what is kept."""
    precision: Predicted
    batch_size: Count
    peak: KindBytes
    """At the moment when most is alive."""
    saved: int
    """Bytes that the forward pass saves for the backward pass, weights not among them, each storage once."""


class Largest(Model):
    """The largest batch whose predicted peak fits in a device's memory."""

    device: str
    precision: Predicted
    batch_size: int
    """0 where not even one sample fits."""


class Measurement(Model):
    """What a fresh process took for the same step."""

    device: Literal["cpu", "cuda"]
    precision: Predicted
    batch_size: Count
    predicted: int
    """Bytes at the predicted peak, as the same device's autocast has it."""
    peak: int
    """CPU: the process's high-water mark less what it held before the model was made. CUDA: peak of requested bytes."""
    allocated: int | None
    """CUDA: peak of allocated bytes, rounding included."""
    reserved: int | None
    """CUDA: peak of reserved bytes, fragmentation included."""
    retries: int | None
    """CUDA: times that the allocator had to free its cache; above 0, the step hardly fits."""

    @property
    def residual(self) -> float:
        """Measured over predicted, less 1."""
        return self.peak / self.predicted - 1


class MemoryRecord(Sealed):
    """What the memory instrument found of one case."""

    spec: MemorySpec
    parameters: int
    """Of the model."""
    predictions: list[Prediction]
    largest: list[Largest]
    measurements: list[Measurement]
    searched: dict[str, int]
    """The largest batch that ran, by precision; empty where it was not searched for."""
    environment: Environment
    code: str
    """Hash of the package sources that the record depends on."""
    seconds: float


def memory_specs(settings: Memory | None, device: Literal["auto", "cpu", "cuda"]) -> dict[Name, MemorySpec]:
    """Return the spec of each case by its name."""
    return {case.name: MemorySpec(case=case, device=device) for case in (settings.cases if settings else [])}
