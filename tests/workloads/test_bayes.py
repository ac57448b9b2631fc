import math

import numpy as np
import pytest
from scipy.special import ndtr

from halfscale.workloads.bayes import bayes_accuracy, bayes_loss


@pytest.mark.parametrize(("separation", "percent"), [(1, 34.1), (2, 67.4), (3, 90.3), (4, 98.3)])
def test_accuracy_of_ten_classes(separation, percent):
    assert 100 * bayes_accuracy(separation, classes=10) == pytest.approx(percent, abs=0.1)


def test_without_separation_all_is_chance():
    assert bayes_accuracy(0, classes=10) == pytest.approx(0.1)
    assert bayes_loss(0, classes=10) == pytest.approx(math.log(10), abs=1e-8)


def test_two_classes_have_a_closed_form():
    assert bayes_accuracy(2.5, classes=2) == pytest.approx(ndtr(2.5 / math.sqrt(2)))


def test_loss_of_two_classes_is_an_integral_in_one_dimension():
    d = 2.5
    x = np.linspace(-12, 12, 4001)  # of the log odds' standardised noise: log odds are N(d^2, 2 d^2)
    loss = np.logaddexp(0, -(d**2 + math.sqrt(2) * d * x))
    weights = np.exp(-(x**2) / 2)
    assert bayes_loss(d, classes=2) == pytest.approx((weights * loss).sum() / weights.sum(), abs=1e-8)


@pytest.mark.parametrize("separation", [1.0, 2.5])
def test_loss_of_ten_classes_agrees_with_a_sample(separation):
    matches = separation * np.random.default_rng(0).standard_normal((100_000, 10))
    matches[:, 0] += separation**2
    loss = np.log(np.exp(matches).sum(axis=1)) - matches[:, 0]
    assert abs(loss.mean() - bayes_loss(separation, classes=10)) < 4 * loss.std() / math.sqrt(len(loss))
