"""A workload: a model, its data, its optimizer and its length."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from halfscale.study.entry_points import bind_arguments, find_entry_point
from halfscale.study.model import FP32, Count, Model, Name


class SGD(Model):
    """Stochastic gradient descent with momentum and coupled weight decay."""

    name: Literal["sgd"]
    lr: FP32
    """Peak learning rate, reached at the end of the warm-up."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """Share of the last update that is kept."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Added to the gradient, times the weight."""


class AdamW(Model):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"]
    lr: FP32
    """Peak learning rate, reached at the end of the warm-up."""
    betas: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)] = Field(
        default=[0.9, 0.999]
    )
    """Decay rates of the running means of the gradient and of its square."""
    eps: FP32 = 1e-8
    """Guards the division. The optimizer's state is FP32, where 1e-8 is not zero."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Taken off the weight itself, times the learning rate."""


Optimizer = Annotated[SGD | AdamW, Field(discriminator="name")]


class Schedule(Model):
    """The learning rate over the run, as a share of its peak."""

    name: Literal["constant", "cosine"] = "constant"
    """After the warm-up: hold the peak, or anneal to zero on a cosine over the remaining steps."""
    warmup_steps: int = Field(default=0, ge=0)
    """Linear warm-up, counted in optimizer updates: a skipped step does not advance it."""


class Workload(Model):
    """A model, its data, its optimizer and its length."""

    name: Name
    """What the workload is called in tables and figures."""
    model: str
    """A file of halfscale/workloads/models, or package.module:function returning an nn.Module."""
    model_args: dict[str, Any] = Field(default={})
    """Keyword arguments of the model's function; checked against its signature."""
    data: str
    """A file of halfscale/workloads/data, or package.module:function."""
    data_args: dict[str, Any] = Field(default={})
    """Keyword arguments of the data's function; checked against its signature."""
    batch_size: Count
    """Samples in one micro-batch; a step sees batch_size x accumulate of them."""
    accumulate: Count = 1
    """Micro-batches whose gradients are summed before one optimizer step. The scale is fixed within it."""
    steps: Count
    """Optimizer steps attempted: updated + skipped = steps."""
    seeds: Annotated[list[int], Field(min_length=1)] | None = None
    """Those of the study's seeds that this workload is run with; all of them when left out."""
    optimizer: Optimizer
    """sgd or adamw, with its settings."""
    schedule: Schedule = Schedule()
    """The learning rate over the run; constant when left out."""
    clip_norm: float | None = Field(default=None, gt=0)
    """Largest L2 norm of the whole gradient, applied after unscaling; null for no clipping."""
    sample_every: Count = 25
    """Steps from one to the next that is also sampled for what takes too long on every step."""
    loss_factor: FP32 = 1.0
    """Multiplies the loss that is differentiated, and so every gradient; the loss that is reported is not multiplied."""
    memory_format: Literal["contiguous", "channels_last"] = "contiguous"
    """Layout of the model's weights and its images: contiguous is NCHW, channels_last is NHWC."""

    @model_validator(mode="before")
    @classmethod
    def fill_in_arguments(cls, values: Any) -> Any:
        """Complete model_args and data_args with their defaults, so one experiment has one canonical form."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        for kind in ("model", "data"):
            name, arguments = values.get(kind), values.get(f"{kind}_args", {})
            if isinstance(name, str) and isinstance(arguments, dict):
                values[f"{kind}_args"] = bind_arguments(find_entry_point(kind, name), arguments)
        return values

    @model_validator(mode="after")
    def warmup_fits(self) -> Self:
        if self.schedule.warmup_steps > self.steps:
            raise ValueError(
                f"schedule.warmup_steps = {self.schedule.warmup_steps}: longer than the run; allowed: 0 to {self.steps}"
            )
        return self
