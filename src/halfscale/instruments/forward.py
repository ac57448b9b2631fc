"""The forward pass, the same for training, evaluation and every later instrument."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from halfscale.instruments.setup import MEMORY_FORMATS, TrainingError
from halfscale.numerics.precision import autocast
from halfscale.study.records import Effective
from halfscale.workloads.batch import Batch


def forward(model: nn.Module, batch: Batch, effective: Effective, memory_format: str) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy, a float32 scalar in nats, and the logits (N, classes) or (N, T, classes).

    The loss is taken in FP32 whatever the logits are: an FP16 loss times a scale of 2^16 is already infinite in its
    gradient.

    Raises:
        TrainingError: the model raised, or its output does not fit the targets; the cause is kept where the model is
            the user's own.
    """
    inputs, targets, _ = place(batch, effective.device, memory_format)
    try:
        with autocast(effective.precision, effective.device):
            logits = model(inputs)
    except Exception as error:  # whatever a model raises on data that do not suit it
        raise TrainingError(
            f"the model raised {type(error).__name__} on inputs {describe(batch.inputs)}: "
            f"{' '.join(str(error).split())}"
        ) from (None if is_a_librarys(model) else error)
    if not isinstance(logits, Tensor):
        raise TrainingError(f"the model gives a {type(logits).__name__}; a tensor of logits (..., classes) is needed")
    if not logits.is_floating_point():
        raise TrainingError(f"the model gives {name_of(logits)} logits; floating point is needed")
    if targets.dtype is not torch.int64:
        raise TrainingError(f"the data give {name_of(targets)} targets; int64 classes are needed")
    if logits.shape[:-1] != targets.shape:
        raise TrainingError(
            f"the model gives {tuple(logits.shape)} for targets {tuple(targets.shape)}; (..., classes) is needed"
        )
    check_classes(batch.targets, logits.shape[-1])
    if torch.is_grad_enabled() and not logits.requires_grad:
        raise TrainingError("the model's output depends on no parameter that trains; is it detached?")
    return cross_entropy(logits.flatten(0, -2).float(), targets.flatten()), logits


def place(batch: Batch, device: str, memory_format: str) -> Batch:
    """Return a batch on a device, images in the memory format. What is so already is not copied."""
    inputs = batch.inputs.to(device, non_blocking=True)
    if inputs.dim() == 4:
        inputs = inputs.to(memory_format=MEMORY_FORMATS[memory_format])
    return batch._replace(inputs=inputs, targets=batch.targets.to(device, non_blocking=True))


def check_classes(targets: Tensor, classes: int) -> None:
    """Check that targets are among a model's classes, where they lie on the CPU: to look elsewhere is to wait.

    Raises:
        TrainingError: one is not.
    """
    if targets.device.type == "cpu" and (largest := targets.numpy().max()) >= classes:
        raise TrainingError(f"the model gives {classes} classes for targets up to {largest}; more classes are needed")


def describe(inputs: Tensor) -> str:
    """Return a batch's shape and type, and its range where it holds tokens, such as (8, 16) int64 from 0 to 31."""
    kind = f"{tuple(inputs.shape)} {name_of(inputs)}"
    return kind if inputs.is_floating_point() else f"{kind} from {int(inputs.min())} to {int(inputs.max())}"


def name_of(tensor: Tensor) -> str:
    """Return a tensor's dtype, such as int64."""
    return str(tensor.dtype).removeprefix("torch.")


def is_a_librarys(model: nn.Module) -> bool:
    """Say whether a model's class is halfscale's or torchvision's, in whose code the user has nothing to mend."""
    return type(model).__module__.startswith(("halfscale.", "torchvision."))
