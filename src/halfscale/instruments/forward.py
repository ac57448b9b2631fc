"""The forward pass, the same for training, evaluation and every later instrument."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from halfscale.instruments.setup import MEMORY_FORMATS, TrainingError
from halfscale.numerics.precision import autocast
from halfscale.study.records import Effective
from halfscale.workloads.batch import Batch

IGNORED = -100
"""A target that cross_entropy leaves out."""


def forward(model: nn.Module, batch: Batch, effective: Effective, memory_format: str) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy, a float32 scalar in nats, and the logits (N, classes) or (N, T, classes).

    The loss is taken in FP32 whatever the logits are: an FP16 loss times a scale of 2^16 is already infinite in its
    gradient.

    Raises:
        TrainingError: the model raised, or its output does not fit the targets, or the data give no batch; the cause is kept where the model is
            the user's own.
    """
    check_batch(batch)
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


def check_batch(batch: Batch) -> None:
    """Check that what the data give is a batch, without a look at its numbers.

    Raises:
        TrainingError: it is something else, or it has no sample.
    """
    if not isinstance(batch, Batch):
        raise TrainingError(f"the data give a {type(batch).__name__}; a halfscale.workloads.batch.Batch is needed")
    for name, value in batch._asdict().items():
        if not (isinstance(value, Tensor) or (name == "oracle_loss" and value is None)):
            raise TrainingError(f"the data give a {type(value).__name__} for {name}; a tensor is needed")
    if not batch.targets.numel():
        raise TrainingError("the data give a batch without a target; one sample at least is needed")


def check_classes(targets: Tensor, classes: int) -> None:
    """Check that targets are among a model's classes, where they lie on the CPU: to look elsewhere is to wait.

    Raises:
        TrainingError: one is not, nor what the loss leaves out.
    """
    if targets.device.type != "cpu":
        return
    known = targets.numpy()
    if (largest := known.max()) >= classes:
        raise TrainingError(f"the model gives {classes} classes for targets up to {largest}; more classes are needed")
    if known.min() < 0 and (wrong := known[(known < 0) & (known != IGNORED)]).size:
        raise TrainingError(
            f"the data give a target of {wrong[0]}; allowed: 0 to {classes - 1}, and {IGNORED} for what the loss leaves out"
        )


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
