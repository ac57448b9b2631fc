"""The throughput experiment: its config, a factorial over what may change a step's time, and its spec.

Precision, memory format, compilation, batch, fused optimizer and loss scaling are levels of their own, and none is
changed along with another: a speed-up is over FP32 without a scaler, all else the same, and a scaler's cost is over the
same variant without it.
"""

from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from halfscale.study.arm import Precision
from halfscale.study.identity import Spec
from halfscale.study.model import Count, Model, Name
from halfscale.study.workload import Optimizer, Workload

MemoryFormat = Literal["contiguous", "channels_last"]


class Levels(Model):
    """The levels that are crossed; one that is left out stays as the workload has it."""

    precision: Annotated[list[Precision], Field(min_length=1)] = Field(default=["fp32", "bf16", "fp16"])
    """fp32 is strict; tf32 differs from it in both of torch's TF32 flags. fp32 is what ratios are taken to."""
    loss_scaling: Annotated[list[bool], Field(min_length=1)] = Field(default=[False])
    """Whether a scaler at a settled scale takes part; true beside false shows what it costs."""
    memory_format: Annotated[list[MemoryFormat], Field(min_length=1)] | None = None
    """contiguous is NCHW, channels_last is NHWC."""
    batch_size: Annotated[list[Count], Field(min_length=1)] | None = None
    """Samples in a step."""
    compile: Annotated[list[bool], Field(min_length=1)] = Field(default=[False])
    """Whether the model goes through torch.compile."""
    fused: Annotated[list[bool], Field(min_length=1)] = Field(default=[False])
    """Whether the optimizer updates all weights in one fused kernel."""

    @field_validator("*")
    @classmethod
    def levels_are_unique(cls, levels: list[Any] | None) -> list[Any] | None:
        if levels is not None and len(set(levels)) < len(levels):
            raise ValueError(f"{levels} names a level twice; each must be unique")
        return levels


class Throughput(Model):
    """How the time of a step is measured."""

    workloads: Annotated[list[Name], Field(min_length=1)] | None = None
    """The workloads that are timed; all of them when left out."""
    blocks: Count = 10
    """Blocks: each times every variant once, in an order of its own."""
    steps: Count = 10
    """Timed steps of a variant in a block."""
    warmup: Count = 10
    """Least steps of a variant before the first block; more until the median of five is steady to 2 %."""
    threads: Annotated[int, Field(gt=0, le=1024)] | None = None
    """CPU threads; all cores when left out, for nothing else runs meanwhile."""
    emulated: bool = False
    """Whether FP16 and BF16 are timed on a CPU without their units too, where they are many times slower than FP32."""
    levels: Levels = Levels()
    """What is crossed."""
    levels_of: dict[Name, Levels] = Field(default={})
    """By workload, what is crossed there in its place."""


class Variant(Model):
    """One cell of the factorial."""

    precision: Precision
    loss_scaling: bool
    memory_format: MemoryFormat
    batch_size: Count
    compile: bool
    fused: bool

    @property
    def name(self) -> str:
        """Return the variant in words, such as bf16-scaled-channels_last-b16."""
        parts = [self.precision, "scaled" if self.loss_scaling else "", self.memory_format, f"b{self.batch_size}"]
        parts += ["compile" if self.compile else "", "fused" if self.fused else ""]
        return "-".join(filter(None, parts))


def short_names(variants: Sequence[Variant]) -> dict[str, str]:
    """Return, by full name, each variant's name without the levels that all of them share; the precision stays."""
    one_format = len({variant.memory_format for variant in variants}) == 1
    one_batch = len({variant.batch_size for variant in variants}) == 1
    names = {}
    for variant in variants:
        parts = [variant.precision, "scaled" if variant.loss_scaling else ""]
        parts += ["" if one_format else variant.memory_format, "" if one_batch else f"b{variant.batch_size}"]
        parts += ["compile" if variant.compile else "", "fused" if variant.fused else ""]
        names[variant.name] = "-".join(filter(None, parts))
    return names


class ThroughputSpec(Spec):
    """All variants of one workload, timed in one process. The interface of the throughput instrument."""

    spec: Literal["halfscale-throughput-v1"] = "halfscale-throughput-v1"
    workload: Name
    model: str
    model_args: dict[str, Any]
    data: str
    data_args: dict[str, Any]
    optimizer: Optimizer
    variants: Annotated[list[Variant], Field(min_length=1)]
    blocks: Count
    steps: Count
    warmup: Count
    threads: Count | None
    emulated: bool
    seed: int
    device: Literal["auto", "cpu", "cuda"]


def cross(levels: Levels, workload: Workload) -> list[Variant]:
    """Return every combination of the levels, precision turning fastest."""
    formats: Sequence[MemoryFormat] = levels.memory_format or [workload.memory_format]
    batches = levels.batch_size or [workload.batch_size]
    cells = product(batches, formats, levels.compile, levels.fused, levels.loss_scaling, levels.precision)
    return [
        Variant(
            precision=precision,
            loss_scaling=scaled,
            memory_format=layout,
            batch_size=batch,
            compile=compiled,
            fused=fused,
        )
        for batch, layout, compiled, fused, scaled, precision in cells
    ]


def throughput_spec(
    settings: Throughput, workload: Workload, seed: int, device: Literal["auto", "cpu", "cuda"]
) -> ThroughputSpec:
    """Return the spec that times one workload."""
    shared = {name: getattr(workload, name) for name in ("model", "model_args", "data", "data_args", "optimizer")}
    counts = {name: getattr(settings, name) for name in ("blocks", "steps", "warmup", "threads", "emulated")}
    return ThroughputSpec(
        workload=workload.name,
        variants=cross(settings.levels_of.get(workload.name, settings.levels), workload),
        seed=seed,
        device=device,
        **shared,
        **counts,
    )
