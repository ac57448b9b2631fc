"""The forward pass, the same for training, evaluation and every later instrument."""

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
    inputs = batch.inputs.to(effective.device, non_blocking=True)
    if inputs.dim() == 4:
        inputs = inputs.to(memory_format=MEMORY_FORMATS[memory_format])
    targets = batch.targets.to(effective.device, non_blocking=True)
    try:
        with autocast(effective.precision, effective.device):
            logits = model(inputs)
    except Exception as error:  # whatever a model raises on data that do not suit it
        raise TrainingError(
            f"the model raised {type(error).__name__} on inputs {describe(batch.inputs)}: "
            f"{' '.join(str(error).split())}"
        ) from (None if is_a_librarys(model) else error)
    if logits.shape[:-1] != targets.shape:
        raise TrainingError(
            f"the model gives {tuple(logits.shape)} for targets {tuple(targets.shape)}; (..., classes) is needed"
        )
    largest, classes = batch.targets.numpy().max(), logits.shape[-1]  # on the CPU: nobody waits for the device
    if largest >= classes:
        raise TrainingError(f"the model gives {classes} classes for targets up to {largest}; more classes are needed")
    return cross_entropy(logits.flatten(0, -2).float(), targets.flatten()), logits


def describe(inputs: Tensor) -> str:
    """Return a batch's shape and type, and its range where it holds tokens, such as (8, 16) int64 from 0 to 31."""
    kind = f"{tuple(inputs.shape)} {str(inputs.dtype).removeprefix('torch.')}"
    return kind if inputs.is_floating_point() else f"{kind} from {int(inputs.min())} to {int(inputs.max())}"


def is_a_librarys(model: nn.Module) -> bool:
    """Say whether a model's class is halfscale's or torchvision's, in whose code the user has nothing to mend."""
    return type(model).__module__.startswith(("halfscale.", "torchvision."))
