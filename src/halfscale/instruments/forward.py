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
        TrainingError: the model's output does not fit the targets.
    """
    inputs = batch.inputs.to(effective.device, non_blocking=True)
    if inputs.dim() == 4:
        inputs = inputs.to(memory_format=MEMORY_FORMATS[memory_format])
    targets = batch.targets.to(effective.device, non_blocking=True)
    with autocast(effective.precision, effective.device):
        logits = model(inputs)
    if logits.shape[:-1] != targets.shape:
        raise TrainingError(
            f"the model gives {tuple(logits.shape)} for targets {tuple(targets.shape)}; (..., classes) is needed"
        )
    return cross_entropy(logits.flatten(0, -2).float(), targets.flatten()), logits
