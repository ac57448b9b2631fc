"""The records of what was predicted of a training step, and of what was measured beside."""

from typing import Literal

from halfscale.study.arm import Precision
from halfscale.study.memory import MemorySpec
from halfscale.study.model import Count, Model
from halfscale.study.records import Environment
from halfscale.study.roofline import RooflineSpec
from halfscale.study.sealed import Sealed
from halfscale.study.step import KINDS, Predicted


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
