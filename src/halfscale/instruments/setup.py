"""From a spec to what an instrument works on: model, optimizer, schedule."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from halfscale.errors import UserError
from halfscale.study import workload
from halfscale.study.spec import RunSpec
from halfscale.workloads.registry import build_model


class TrainingError(UserError, ValueError):
    """A model or data that cannot be trained as the spec says."""


MEMORY_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def make_model(spec: RunSpec, device: str) -> nn.Module:
    """Return the block's model on a device, moved by one ulp where the spec says so.

    Raises:
        TrainingError: as build_fp32_model.
    """
    model = build_fp32_model(spec.model, spec.model_args, spec.seed)
    if spec.perturb == "ulp":
        move_by_one_ulp(model, spec.seed)
    return model.to(device).to(memory_format=MEMORY_FORMATS[spec.memory_format])


def build_fp32_model(name: str, arguments: Mapping[str, Any], seed: int) -> nn.Module:
    """Return a model on the CPU: its initial weights depend on the seed alone, for every device alike.

    Raises:
        TrainingError: a parameter is not FP32, so that no precision's label would be true of it; or one has no values
            before the first forward pass.
    """
    torch.manual_seed(seed)
    return known_fp32(name, build_model(name, arguments))


def known_fp32(name: str, model: nn.Module) -> nn.Module:
    """Return a model that was built, whose parameters all are FP32 and have values.

    Raises:
        TrainingError: as build_fp32_model.
    """
    for label, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if is_lazy(tensor):
            raise TrainingError(
                f"model = {name!r}: {label} is lazy: it has no values yet; allowed: modules of known sizes"
            )
    for label, parameter in model.named_parameters():
        if parameter.dtype is not torch.float32:
            raise TrainingError(
                f"model = {name!r}: parameter {label} is {str(parameter.dtype).removeprefix('torch.')}; allowed: "
                "float32, in every precision (autocast casts what it needs)"
            )
    return model


@torch.no_grad()
def move_by_one_ulp(model: nn.Module, seed: int) -> None:
    """Move every parameter element to the next float up or down, by the toss of a seeded coin."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        up = torch.rand(parameter.shape, generator=generator) < 0.5
        parameter.copy_(torch.nextafter(parameter, torch.where(up, math.inf, -math.inf)))


def make_optimizer(
    settings: workload.SGD | workload.AdamW, model: nn.Module, *, fused: bool = False, foreach: bool | None = None
) -> Optimizer:
    """Return the optimizer over the parameters that train.

    Training takes no fused one: in it a step is skipped on the device, where the host cannot count it.

    Args:
        settings: its name and what belongs to it.
        model: whose parameters it updates.
        fused: whether one kernel updates all of them.
        foreach: whether a kernel does one operation for all of them; None leaves it to torch, which does so on CUDA.

    Raises:
        TrainingError: the model has no parameter that trains.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise TrainingError("the model has no parameter with requires_grad, so there is nothing to train")
    kernels: dict[str, Any] = {"fused": True} if fused else {"foreach": foreach}  # fused=False would rule out foreach
    match settings:
        case workload.SGD():
            return SGD(
                parameters, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay, **kernels
            )
        case workload.AdamW():
            return AdamW(
                parameters,
                lr=settings.lr,
                betas=(settings.betas[0], settings.betas[1]),
                eps=settings.eps,
                weight_decay=settings.weight_decay,
                **kernels,
            )


def make_schedule(spec: RunSpec, optimizer: Optimizer) -> LambdaLR:
    """Return the learning-rate schedule, to be advanced once for each update that was applied."""
    warmup, steps, cosine = spec.schedule.warmup_steps, spec.steps, spec.schedule.name == "cosine"

    def factor(updates: int) -> float:
        if updates < warmup:
            return (updates + 1) / warmup
        if not cosine:
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (updates - warmup) / max(1, steps - warmup))))

    return LambdaLR(optimizer, factor)
