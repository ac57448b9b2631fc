"""One variant of a throughput measurement: everything that its step works on, and the step itself."""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from halfscale.instruments.clock import Clock
from halfscale.instruments.describe import describe_effective
from halfscale.instruments.forward import check_batch, forward, place
from halfscale.instruments.setup import MEMORY_FORMATS, TrainingError, build_fp32_model, make_optimizer
from halfscale.numerics.loss_scaling import found_inf, make_scaler
from halfscale.numerics.precision import DeviceType, set_tf32
from halfscale.study.arm import DynamicLossScaling, NoLossScaling
from halfscale.study.records import Effective
from halfscale.study.throughput import ThroughputSpec, Variant
from halfscale.study.workload import SGD
from halfscale.workloads.batch import Batch, Data

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
    eager: nn.Module
    """The model as it was built."""
    model: nn.Module
    """The same, compiled where the variant says so."""
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

    def renew(self, spec: ThroughputSpec) -> None:
        """Make the model, its optimizer and the fixed batch anew, so that they lie elsewhere in the host's memory.

        Where they lie, and among what, decides by up to half a percent how long a step takes, for as long as they lie
        there: of two variants that are the same, the one built later was the faster. Copies will not do: a parameter's
        hooks are not copied, nor is what a fused optimizer tells the scaler. A compiled model stays with its code, and
        one on a GPU where it is, for two may not fit.
        """
        if self.variant.compile or self.fixed.inputs.device.type != "cpu":
            return
        fresh = prepare_variant(spec, self.variant, self.data, "cpu")
        fresh.scaler.load_state_dict(self.scaler.state_dict())
        self.eager, self.model, self.optimizer, self.scaler = fresh.eager, fresh.model, fresh.optimizer, fresh.scaler
        self.fixed = fresh.fixed

    def next_batch(self) -> Batch:
        """Return the loader's next batch, on the host."""
        self.drawn += 1
        return draw(self.data, self.drawn, self.variant.batch_size)

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
        TrainingError: the model is not FP32, or has nothing to train; or the data give no batch of this size.
    """
    set_tf32(variant.precision == "tf32")
    eager = build_fp32_model(spec.model, spec.model_args, spec.seed)
    eager = eager.to(device).to(memory_format=MEMORY_FORMATS[variant.memory_format]).train()
    optimizer = make_optimizer(spec.optimizer, eager, fused=variant.fused)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    if variant.fused and isinstance(spec.optimizer, SGD):
        zero_momentum(optimizer)
    scaling = DynamicLossScaling(kind="dynamic", growth_interval=NEVER)
    scaler = make_scaler(scaling if variant.loss_scaling else NoLossScaling(kind="none"), device)
    effective = describe_effective(device, variant.precision, variant.precision, "native", scaler, data.fingerprint)
    return Prepared(
        variant=variant,
        eager=eager,
        model=cast(nn.Module, torch.compile(eager, dynamic=False)) if variant.compile else eager,
        optimizer=optimizer,
        scaler=scaler,
        effective=effective,
        data=data,
        fixed=place(draw(data, 0, variant.batch_size), device, variant.memory_format),
        overflows=torch.zeros((), device=device),
    )


def draw(data: Data, index: int, size: int) -> Batch:
    """Return a batch of just so many samples as its variant's label says.

    Raises:
        TrainingError: it has fewer or more, or is no batch.
    """
    batch = data.batch(index, size)
    check_batch(batch)
    if batch.targets.shape[:1] != (size,):
        raise TrainingError(
            f"the data give targets {tuple(batch.targets.shape)} where {size} samples are asked for; a time would not be "
            "that of its label"
        )
    return batch


def zero_momentum(optimizer: Optimizer) -> None:
    """Give SGD its momentum now. The fused kernel leaves a new one unwritten when its first step overflows."""
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else []:
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def allow_compilations(count: int) -> None:
    """Let as many variants be compiled, and have the next one fail: beyond its limit torch runs them eagerly, unsaid."""
    torch._dynamo.config.recompile_limit = max(count, torch._dynamo.config.recompile_limit)
    torch._dynamo.config.fail_on_recompile_limit_hit = True


def settle(prepared: Prepared) -> float | None:
    """Lower a settled scale by two bits, for the loader's other batches; return it, None if nothing is scaled."""
    if not prepared.scaler.is_enabled():
        return None
    scale = prepared.scaler.get_scale() / 4
    prepared.scaler.update(scale)
    prepared.overflows.zero_()
    return scale
