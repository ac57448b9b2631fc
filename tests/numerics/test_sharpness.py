"""The closed form of the logit sharpness is a maximum, and the one that can be had."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from halfscale.numerics.sharpness import sharpness, worst_loss

EPSILON = 1e-3


def test_no_corner_of_the_box_is_worse_and_one_is_as_bad() -> None:
    """Of 20,000 random corners none; of all 32 of a prediction in five classes, one."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(6, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(5, (6,), generator=generator)
    worst = worst_loss(logits, targets, EPSILON).item()
    reach = EPSILON * (logits.abs() + 1)
    losses = [
        cross_entropy(logits + reach * (torch.randint(2, logits.shape, generator=generator) * 2 - 1), targets).item()
        for _ in range(20_000)
    ]
    assert max(losses) <= worst
    corners = torch.tensor([[(corner >> bit & 1) * 2 - 1 for bit in range(5)] for corner in range(32)])
    most = [
        max(cross_entropy(z + r * corner, t).item() for corner in corners)
        for z, r, t in zip(logits, reach, targets, strict=True)
    ]
    assert worst == pytest.approx(sum(most) / 6, rel=1e-12)


def test_two_classes_at_even_odds() -> None:
    """Logits of zero move by epsilon each, apart: the loss goes from ln 2 to ln(1 + exp(2 epsilon))."""
    logits, targets = torch.zeros(3, 2, dtype=torch.float64), torch.tensor([0, 1, 0])
    loss, worst = cross_entropy(logits, targets), worst_loss(logits, targets, EPSILON)
    assert worst.item() == pytest.approx(math.log1p(math.exp(2 * EPSILON)), rel=1e-12)
    expected = 100 * (math.log1p(math.exp(2 * EPSILON)) - math.log(2)) / (1 + math.log(2))
    assert sharpness(loss, worst).item() == pytest.approx(expected, rel=1e-9)


def test_targets_that_the_loss_ignores_are_left_out() -> None:
    logits, targets = torch.randn(4, 3), torch.tensor([2, -100, 1, -100])
    assert worst_loss(logits, targets, EPSILON).item() == worst_loss(logits[::2], targets[::2], EPSILON).item()


def test_without_a_box_it_is_the_loss() -> None:
    logits, targets = torch.randn(7, 3), torch.tensor([0, 1, 2, 0, 1, 2, 0])
    assert worst_loss(logits, targets, 0.0).item() == cross_entropy(logits, targets).item()
