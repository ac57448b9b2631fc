"""The held-out loss of a model, in the precision that it was trained in."""

from dataclasses import dataclass

import torch
from torch import nn

from halfscale.instruments.forward import IGNORED, forward
from halfscale.instruments.setup import TrainingError
from halfscale.numerics.precision import arithmetic
from halfscale.study.records import Effective
from halfscale.study.spec import RunSpec
from halfscale.workloads.batch import Data

LARGER = 2
"""Times the training batch: nothing is kept for a backward pass, so that this fits wherever a training step does."""


@dataclass(frozen=True)
class Evaluation:
    loss: float
    """Mean over the held-out samples, nats."""
    excess: float | None
    """The same, less the oracle's loss on the same samples; None where there is no oracle."""
    accuracy: float
    """Share of targets that are the most likely class."""


@torch.no_grad()
def evaluate(spec: RunSpec, model: nn.Module, data: Data, effective: Effective) -> Evaluation:
    """Evaluate a model on all held-out samples.

    Raises:
        TrainingError: there are none, or as forward.
    """
    model.eval()
    loss = oracle_loss = correct = 0.0
    count, has_oracle = 0, True
    for batch in data.evaluation(LARGER * spec.batch_size):
        with arithmetic(effective.precision, effective.backend):
            batch_loss, logits = forward(model, batch, effective, spec.memory_format)
        size = int((batch.targets != IGNORED).sum())
        if not size:  # its loss is a mean of nothing
            continue
        loss += batch_loss.item() * size
        correct += (logits.argmax(dim=-1).cpu() == batch.targets).sum().item()
        count += size
        if batch.oracle_loss is None:
            has_oracle = False
        else:
            oracle_loss += batch.oracle_loss.item() * size
    if not count:
        raise TrainingError("the data give no held-out samples: evaluation() yields no target; one at least is needed")
    return Evaluation(loss / count, (loss - oracle_loss) / count if has_oracle else None, correct / count)
