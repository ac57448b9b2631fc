"""TOST against METHOD's table of seeds, against a simulation, and against statsmodels where that has no answer."""

import math

import numpy as np
import pytest
from scipy import stats

from halfscale.analysis.tost import POWER, smallest_margin, tost, tost_power

SEEDS = {0.5: (36, 40), 1.0: (11, 12), 1.5: (6, 6), 2.0: (4, 4), 3.0: (3, 3)}
"""By margin in standard deviations of the gaps: fewest seeds for 80 % power, and the same as a Monte Carlo simulation on
a coarse grid of numbers of seeds had found it."""


@pytest.mark.parametrize(("margin", "seeds"), SEEDS.items())
def test_seeds_for_a_power_of_eighty_percent(margin, seeds):
    exact, on_the_grid = seeds
    assert tost_power(margin, exact, 0.05) >= POWER > tost_power(margin, exact - 1, 0.05)
    assert tost_power(margin, on_the_grid, 0.05) >= POWER


@pytest.mark.parametrize(("margin", "seeds"), SEEDS.items())
def test_power_is_that_of_a_simulation(margin, seeds):
    """20,000 experiments: a standard error of 0.0028 at most, and four of them are allowed."""
    n = seeds[0]
    gaps = np.random.default_rng(n).standard_normal((20_000, n))
    reach = stats.t.isf(0.05, n - 1) * gaps.std(axis=1, ddof=1) / math.sqrt(n)
    shown = (np.abs(gaps.mean(axis=1)) < margin - reach).mean()
    assert tost_power(margin, n, 0.05) == pytest.approx(shown, abs=4 * 0.0028)


@pytest.mark.parametrize("n", [3, 6, 12])
@pytest.mark.parametrize("margin", [0.5, 1.0, 3.0])
def test_size_at_the_margin_is_at_most_alpha(n, margin):
    """The true gap is the margin itself, and equivalence is shown in 5 % of experiments at most: 4,000 of them have a
    standard error of 0.0034, and three are allowed."""
    gaps = np.random.default_rng(10 * n).normal(margin, 1.0, (4_000, n))
    shown = np.mean([tost(row, margin).equivalent < 0.05 for row in gaps])
    assert shown <= 0.05 + 3 * 0.0034
    if margin == 3.0:
        assert shown >= 0.05 - 3 * 0.0034  # where the other bound is far, the test is exact


def test_equivalence_is_shown_where_the_interval_lies_within_the_margin():
    gaps = [0.01, 0.02, -0.01, 0.03]
    mean, half = np.mean(gaps), stats.t.isf(0.05, 3) * np.std(gaps, ddof=1) / 2
    reach = mean + half
    assert tost(gaps, 1.001 * reach).equivalent < 0.05 < tost(gaps, 0.999 * reach).equivalent


def test_p_of_no_difference_is_that_of_the_t_test():
    gaps = [1.0, 2.0, 4.0]
    assert tost(gaps, 1.0).different == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue)


@pytest.mark.parametrize(("gap", "p"), [(0.5, (0.0, 0.0)), (-0.5, (0.0, 0.0)), (1.0, (1.0, 0.0)), (0.0, (0.0, 1.0))])
def test_gaps_that_are_all_the_same_leave_no_doubt(gap, p):
    assert tost([gap] * 3, 1.0) == p


def test_the_smallest_margin_is_the_one_of_this_power():
    for n in (2, 3, 6, 40):
        assert tost_power(smallest_margin(n, 0.05), n, 0.05) == pytest.approx(POWER, abs=1e-6)
    assert smallest_margin(3, 0.05) == pytest.approx(2.66, abs=0.005)
    assert math.isnan(smallest_margin(1, 0.05))


def test_power_vanishes_with_the_margin_and_ends_at_one():
    assert tost_power(0.0, 5, 0.05) == 0.0
    assert tost_power(50.0, 5, 0.05) == pytest.approx(1.0, abs=1e-6)
