"""An arm: a treatment, that is precision, loss scaling, and whatever else differs."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from halfscale.study.model import Model, Name

Precision = Literal["fp32", "tf32", "fp16", "bf16"]

# GradScaler grows the scale only while it stays finite in FP32, whose largest power of two is 2^127.
LARGEST_SCALE = 2.0**127
# Its state is FP32: anything smaller is subnormal there, and soon zero.
SMALLEST_SCALE = 2.0**-126


class DynamicLossScaling(Model):
    """GradScaler: grow after a run of clean steps, back off on overflow. Defaults are PyTorch's."""

    kind: Literal["dynamic"]
    init_scale: float = Field(default=65536.0, ge=SMALLEST_SCALE, le=LARGEST_SCALE)
    """The scale of the first step."""
    growth_factor: float = Field(default=2.0, ge=1.001, le=LARGEST_SCALE)
    """A factor too near to 1 is 1 in FP32, where the scale lives."""
    """What the scale is multiplied by when it grows."""
    backoff_factor: float = Field(default=0.5, ge=SMALLEST_SCALE, lt=1)
    """What the scale is multiplied by on overflow."""
    growth_interval: int = Field(default=2000, ge=1, lt=2**31)
    """Clean steps in a row before the scale grows."""
    always: bool = False
    """Scale even in a precision that does not need it; otherwise only fp16 is scaled."""


class StaticLossScaling(Model):
    """One scale for the whole run. Overflow is still detected and its step skipped."""

    kind: Literal["static"]
    scale: float = Field(ge=SMALLEST_SCALE, le=LARGEST_SCALE)
    """The scale of every step."""
    always: bool = False
    """Scale even in a precision that does not need it; otherwise only fp16 is scaled."""


class NoLossScaling(Model):
    """Nothing is scaled, and no step is skipped."""

    kind: Literal["none"]


LossScaling = Annotated[
    DynamicLossScaling | StaticLossScaling | NoLossScaling,
    Field(discriminator="kind"),
]


class Inject(Model):
    """A fault plan: make overflow happen at given steps."""

    kind: Literal["inf_gradient"]
    steps: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    """Steps, counted from 0, in whose first micro-batch one gradient becomes infinite."""

    @field_validator("steps")
    @classmethod
    def sort(cls, steps: list[int]) -> list[int]:
        return sorted(set(steps))


class Arm(Model):
    """A treatment: precision, loss scaling, and whatever else differs."""

    name: Name
    """What the arm is called in tables and figures."""
    precision: Precision
    """fp32 is strict, with no TF32 anywhere; fp16 and bf16 are autocast over FP32 weights."""
    loss_scaling: LossScaling | None = None
    """Left out: dynamic with PyTorch's defaults for fp16, none otherwise."""
    lr_factor: float = Field(default=1.0, gt=0)
    """Multiplies the workload's learning rate."""
    perturb: Literal["none", "ulp"] = "none"
    """ulp: every initial weight moved by one unit in the last place, up or down at random."""
    reduced_precision_reduction: bool = True
    """Whether CUDA may sum parts of a 16-bit product in 16 bits, as PyTorch lets it; without effect elsewhere."""
    fallback: Literal["none", "fp32"] = "none"
    """What to do where the device has no such precision: refuse by name, or run in fp32 and say so."""
    inject: Inject | None = None
    """A fault plan; none when left out."""
    workloads: Annotated[list[Name], Field(min_length=1)] | None = None
    """The workloads this arm is for; all of them when left out."""

    @property
    def effective_loss_scaling(self) -> DynamicLossScaling | StaticLossScaling | NoLossScaling:
        """The scaling that takes effect, with no trace of settings that do not."""
        scaling = self.loss_scaling
        if scaling is None:
            scaling = DynamicLossScaling(kind="dynamic") if self.precision == "fp16" else NoLossScaling(kind="none")
        if isinstance(scaling, NoLossScaling):
            return scaling
        if self.precision != "fp16" and not scaling.always:
            return NoLossScaling(kind="none")
        return scaling.model_copy(update={"always": False})
