"""The wrong ways to train in half precision, done on purpose so that they can be measured. Never the way to do it.

The training loop calls these functions where a wrong way leaves the right one; what each pitfall is stands in
study/arm.py. Where PyTorch itself refuses a wrong way, it raises in the middle of the step, and that is the finding.
"""

import traceback
from pathlib import Path

from torch import Tensor, nn
from torch.amp import grad_scaler
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from halfscale.instruments.run import Run
from halfscale.instruments.telemetry import Fetched
from halfscale.numerics.loss_scaling import scale_tensor
from halfscale.numerics.precision import AUTOCAST


def differentiated_loss(run: Run, loss: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss that is differentiated: the one given, or under half_loss one that is 16-bit throughout."""
    if run.spec.pitfall != "half_loss":
        return loss
    half = logits.flatten(0, -2).to(AUTOCAST[run.effective.precision])
    return cross_entropy(half, targets.flatten().to(half.device))


def before_unscaling(run: Run, parameters: list[nn.Parameter]) -> None:
    """Clip gradients that are still multiplied by the loss scale, under clip_before_unscale."""
    if run.spec.pitfall == "clip_before_unscale" and run.spec.clip_norm is not None:
        clip_grad_norm_(parameters, run.spec.clip_norm)


def after_unscaling(run: Run, gradients: list[Tensor]) -> None:
    """Divide gradients by the loss scale once more: by torch, which refuses it, or by hand, which nobody does."""
    if run.spec.pitfall == "unscaled_twice":
        run.scaler.unscale_(run.optimizer)
    if run.spec.pitfall == "unscaled_by_hand":
        scale = scale_tensor(run.scaler)
        for gradient in gradients:
            gradient.div_(scale)


def is_passed_over(run: Run, fetched: Fetched) -> bool:
    """Say whether a step's loss is not looked at: under overflow_ignored, one whose update the scaler skipped."""
    return run.spec.pitfall == "overflow_ignored" and bool(fetched.row["skipped"])


def refusal(run: Run, error: Exception) -> str | None:
    """Return what PyTorch's scaler says where it refuses a pitfall; None where the error is of another kind."""
    if run.spec.pitfall is None:
        return None
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return " ".join(str(error).split()) if raised_in == Path(grad_scaler.__file__) else None
