"""Sharpness of the loss in the logits: how much it can rise within a small box around them."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def worst_loss(logits: Tensor, targets: Tensor, epsilon: float) -> Tensor:
    """Return the mean over predictions of the largest cross-entropy for logits in |delta_i| <= epsilon (|z_i| + 1).

    It has a closed form: the loss rises in every wrong logit and falls in the right one, whatever the others are, so it
    is largest in one corner of the box.

    Args:
        logits: (N, classes), floating point.
        targets: (N,), int64; those that cross_entropy ignores, such as -100, are left out.
        epsilon: half the width of the box, relative to |z_i| + 1 (Keskar et al. 2017, arXiv 1609.04836, in the logits as
            by Lee et al. 2024, arXiv 2405.18710).
    """
    reach = epsilon * (logits.abs() + 1)
    right = torch.zeros_like(reach, dtype=torch.bool).scatter_(1, targets.clamp(min=0)[:, None], True)
    return cross_entropy(logits + torch.where(right, -reach, reach), targets)


def sharpness(loss: Tensor, worst: Tensor) -> Tensor:
    """Return 100 (worst - loss) / (1 + loss), in percent."""
    return 100 * (worst - loss) / (1 + loss)
