"""One variant of a throughput measurement: everything that its step works on, and the step itself."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import SGD, AdamW, Optimizer

from halfscale.instruments.clock import Clock
from halfscale.instruments.describe import describe_effective
from halfscale.instruments.forward import forward
from halfscale.instruments.setup import MEMORY_FORMATS
from halfscale.numerics.loss_scaling import found_inf, make_scaler
from halfscale.numerics.precision import DeviceType, set_tf32
from halfscale.study import workload
from halfscale.study.arm import DynamicLossScaling, NoLossScaling
from halfscale.study.records import Effective
from halfscale.study.throughput import ThroughputSpec, Variant
from halfscale.workloads.batch import Batch, Data
from halfscale.workloads.registry import build_model

NEVER = 2**31 - 1
"""A growth interval that no measurement reaches: the scale settles and stays."""


class Marks(NamedTuple):
    """Four marks of a clock around the three phases of a step."""

    start: Any
    forward: Any
    backward: Any
    optimizer: Any


@dataclass
class Prepared:
    """A variant ready to be timed."""

    variant: Variant
    model: nn.Module
    optimizer: Optimizer
    scaler: GradScaler
    effective: Effective
    data: Data
    fixed: Batch
    """A batch on the device, in the variant's memory format."""
    overflows: Tensor
    """Overflows so far, counted on the device."""
    drawn: int = 0
    """Batches that the loader has given."""

    def select(self) -> None:
        """Set the process-wide switches to this variant's."""
        set_tf32(self.variant.precision == "tf32")

    def next_batch(self) -> Batch:
        """Return the loader's next batch, on the host."""
        self.drawn += 1
        return self.data.batch(self.drawn, self.variant.batch_size)

    def step(self, clock: Clock, batch: Batch | None = None) -> Marks:
        """Take one step on the fixed batch, or on a given one, without waiting for the device."""
        start = clock.mark()
        loss, _ = forward(self.model, batch or self.fixed, self.effective, self.variant.memory_format)
        after_forward = clock.mark()
        self.scaler.scale(loss).backward()
        after_backward = clock.mark()
        self.scaler.step(self.optimizer)
        if self.scaler.is_enabled():
            self.overflows += found_inf(self.scaler, self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return Marks(start, after_forward, after_backward, clock.mark())


def prepare_variant(spec: ThroughputSpec, variant: Variant, data: Data, device: DeviceType) -> Prepared:
    """Build a variant and check that its precision is really in effect.

    Its learning rate is 0: the arithmetic of an update is the same for any rate, and weights that stay where they are
    make every step the same work, however many have gone before.

    Raises:
        UnavailableError: the precision is not what its label says.
    """
    set_tf32(variant.precision == "tf32")
    torch.manual_seed(spec.seed)
    model = build_model(spec.model, spec.model_args).to(device).to(memory_format=MEMORY_FORMATS[variant.memory_format])
    model.train()
    optimizer = frozen_optimizer(spec.optimizer, model, fused=variant.fused)
    scaling = DynamicLossScaling(kind="dynamic", growth_interval=NEVER)
    scaler = make_scaler(scaling if variant.loss_scaling else NoLossScaling(kind="none"), device)
    effective = describe_effective(device, variant.precision, variant.precision, "native", scaler, data.fingerprint)
    if variant.compile:
        model = torch.compile(model)  # type: ignore[assignment]
    fixed = on_device(data.batch(0, variant.batch_size), device, variant)
    return Prepared(variant, model, optimizer, scaler, effective, data, fixed, torch.zeros((), device=device))


def on_device(batch: Batch, device: DeviceType, variant: Variant) -> Batch:
    """Return a batch on the device, images in the variant's memory format."""
    inputs = batch.inputs.to(device)
    if inputs.dim() == 4:
        inputs = inputs.to(memory_format=MEMORY_FORMATS[variant.memory_format])
    return Batch(inputs, batch.targets.to(device), None)


def frozen_optimizer(settings: workload.SGD | workload.AdamW, model: nn.Module, *, fused: bool) -> Optimizer:
    """Return the workload's optimizer at learning rate 0."""
    arguments = settings.model_dump(exclude={"name", "lr"})
    kind = SGD if isinstance(settings, workload.SGD) else AdamW
    return kind(model.parameters(), lr=0.0, fused=fused, **arguments)


def settle(prepared: Prepared) -> float | None:
    """Lower a settled scale by two bits, for the loader's other batches; return it, None if nothing is scaled."""
    if not prepared.scaler.is_enabled():
        return None
    scale = prepared.scaler.get_scale() / 4
    prepared.scaler.update(scale)
    prepared.overflows.zero_()
    return scale
