"""Which updates a run loses: looked at where they are applied."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

EVERY = 10
"""Updates from one that is looked at to the next."""


class LostUpdates:
    """Counts the elements that an update should have moved and did not.

    An update is lost where the gradient of a weight is not zero and yet the weight is the same number before and after:
    the update was smaller than half the gap to the next number of the weight's own format. What is no longer finite is
    not counted.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.updates = 0
        self.before: list[Tensor] = []
        self.lost: list[Tensor] = []
        self.moving: list[Tensor] = []
        optimizer.register_step_pre_hook(self.keep)
        optimizer.register_step_post_hook(self.count)

    @property
    def share(self) -> float | None:
        """Lost updates over all of them; None where there was no gradient."""
        moving = sum(int(each) for each in self.moving)
        return sum(int(each) for each in self.lost) / moving if moving else None

    @torch.no_grad()
    def keep(self, optimizer: Optimizer, *_: Any) -> None:
        """Note the weights before an update."""
        if self.updates % EVERY == 0:
            self.before = [weight.clone() for weight in optimizer.param_groups[0]["params"]]

    @torch.no_grad()
    def count(self, optimizer: Optimizer, *_: Any) -> None:
        """Count, on the device, what the update left where it was."""
        if self.updates % EVERY == 0:
            for weight, before in zip(optimizer.param_groups[0]["params"], self.before, strict=True):
                if weight.grad is not None:
                    moving = (weight.grad != 0) & weight.isfinite()
                    self.moving.append(moving.sum())
                    self.lost.append((moving & (weight == before)).sum())
        self.updates += 1
