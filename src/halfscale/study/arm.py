"""An arm: a treatment, that is precision, loss scaling, and whatever else differs."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

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

    kind: Literal["inf_gradient", "large_input"]
    """inf_gradient: one gradient becomes infinite. large_input: one number of the batch becomes 2^17, which FP32 and
    BF16 hold and FP16 does not."""
    steps: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    """Steps, counted from 0, in whose first micro-batch that happens."""

    @field_validator("steps")
    @classmethod
    def sort(cls, steps: list[int]) -> list[int]:
        return sorted(set(steps))


Pitfall = Literal[
    "clip_before_unscale",
    "update_forgotten",
    "unscaled_twice",
    "unscaled_by_hand",
    "half_weights",
    "half_loss",
    "schedule_on_skipped",
    "overflow_ignored",
]
"""A wrong way to train in half precision, done on purpose.

clip_before_unscale: the gradient is clipped while it is still multiplied by the loss scale.
update_forgotten: scaler.update() is never called.
unscaled_twice: scaler.unscale_() is called twice in a step.
unscaled_by_hand: the gradient is divided by the scale by hand after scaler.unscale_() has done so.
half_weights: the weights, and with them gradients and optimizer state, are 16-bit numbers, with no FP32 copy.
half_loss: the loss is taken of 16-bit logits, in 16 bits.
schedule_on_skipped: a skipped step advances the learning-rate schedule.
overflow_ignored: training goes on after a forward pass that overflowed, since the scaler skipped that step's update.
    A run whose final loss is not finite has diverged none the less.
"""

NEED_A_SCALER = (
    "clip_before_unscale",
    "update_forgotten",
    "unscaled_twice",
    "unscaled_by_hand",
    "schedule_on_skipped",
    "overflow_ignored",
)
"""Pitfalls that do nothing where nothing is scaled."""

NEED_16_BITS = ("half_weights", "half_loss")
"""Pitfalls that do nothing in FP32."""


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
    pitfall: Pitfall | None = None
    """A wrong way, done on purpose; none when left out. Only for the arms of experiments.practices."""
    fp32_modules: list[Annotated[str, Field(min_length=1)]] = Field(default=[])
    """Modules, named as in model.named_modules(), whose forward pass runs with autocast off and on FP32 inputs."""
    layer_scales: dict[str, Annotated[float, Field(ge=2.0**-24, le=2.0**24)]] = Field(default={})
    """By module, a power of two by which the gradient is multiplied within that module alone."""
    workloads: Annotated[list[Name], Field(min_length=1)] | None = None
    """The workloads this arm is for; all of them when left out."""

    @field_validator("fp32_modules")
    @classmethod
    def sort_modules(cls, names: list[str]) -> list[str]:
        return sorted(set(names))

    @field_validator("layer_scales")
    @classmethod
    def powers_of_two(cls, scales: dict[str, float]) -> dict[str, float]:
        for module, scale in scales.items():
            if math.frexp(scale)[0] != 0.5:
                raise ValueError(f"{module}: {scale:g} is no power of two; allowed: powers of two, 2^-24 to 2^24")
        return dict(sorted(scales.items()))

    @model_validator(mode="after")
    def pitfall_can_happen(self) -> Self:
        lacking = ""
        if self.pitfall in NEED_A_SCALER and self.effective_loss_scaling.kind == "none":
            lacking = "does nothing where nothing is scaled; allowed: with loss_scaling dynamic or static, in effect"
        elif self.pitfall in NEED_16_BITS and self.precision not in ("fp16", "bf16"):
            lacking = f"does nothing in {self.precision}; allowed: with precision fp16 or bf16"
        elif self.pitfall and self.fallback != "none":
            lacking = f"cannot be had with fallback = {self.fallback!r}; allowed: fallback none"
        elif self.pitfall == "half_weights" and self.fp32_modules:
            lacking = "has no FP32 weights for fp32_modules to run on; allowed: without fp32_modules"
        if lacking:
            raise ValueError(f"pitfall = {self.pitfall!r}: {lacking}")
        return self

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
