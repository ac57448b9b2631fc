"""Interval estimates against worked examples; diverged runs are counted, never averaged away."""

import math

import pandas as pd
import pytest

from halfscale.analysis.statistics import mean_with_interval, median_low, paired_gaps, share_interval


def test_mean_and_t_interval():
    """1, 2, 3: s = 1, t(0.975, 2) = 4.302653, half width 4.302653 / sqrt(3) = 2.484138."""
    estimate = mean_with_interval([1.0, 2.0, 3.0])
    assert (estimate.mean, estimate.n, estimate.of) == (2.0, 3, 3)
    assert estimate.low == pytest.approx(2 - 2.484138, abs=1e-6)
    assert estimate.high == pytest.approx(2 + 2.484138, abs=1e-6)


def test_a_diverged_run_is_left_out_and_counted():
    estimate = mean_with_interval([1.0, 3.0, math.nan])
    assert (estimate.mean, estimate.n, estimate.of) == (2.0, 2, 3)


def test_infinity_is_no_mean():
    assert mean_with_interval([1.0, math.inf, 3.0]).mean == 2.0


def test_one_value_has_no_interval():
    estimate = mean_with_interval([5.0])
    assert (estimate.mean, estimate.n) == (5.0, 1)
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)


@pytest.mark.parametrize("values", [[], [math.nan, math.nan, math.nan]])
def test_no_value_has_no_mean(values):
    estimate = mean_with_interval(values)
    assert math.isnan(estimate.mean)
    assert (estimate.n, estimate.of) == (0, len(values))


def test_equal_values_have_an_interval_of_no_width():
    assert mean_with_interval([0.0, 0.0, 0.0])[:3] == (0.0, 0.0, 0.0)


def test_gaps_are_within_blocks():
    """Blocks differ by far more than arms do; the gap must not see that."""
    reference = pd.Series({0: 1.0, 1: 10.0, 2: 100.0})
    arm = pd.Series({2: 100.5, 0: 1.5, 1: 10.5})
    assert paired_gaps(arm, reference).to_dict() == {2: 0.5, 0: 0.5, 1: 0.5}


def test_no_gap_where_either_diverged_or_is_missing():
    gaps = paired_gaps(pd.Series({0: math.nan, 1: 2.0, 2: 3.0}), pd.Series({0: 1.0, 1: math.nan}))
    assert gaps.index.tolist() == [0, 1, 2]
    assert gaps.isna().all()


def test_wilson_interval():
    """1 of 3: (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n) with z = 1.959964."""
    assert share_interval(1, 3) == pytest.approx((0.061492, 0.792340), abs=1e-6)


def test_wilson_interval_ends_exactly_at_the_bounds():
    """0 of n ends at z^2 / (n + z^2)."""
    low, high = share_interval(0, 3)
    assert low == 0.0
    assert high == pytest.approx(0.561497, abs=1e-6)
    assert share_interval(3, 3) == (pytest.approx(1 - 0.561497, abs=1e-6), 1.0)


def test_share_of_nothing():
    assert all(math.isnan(bound) for bound in share_interval(0, 0))


def test_lower_median_is_one_of_the_values():
    assert median_low([2.0**15, 2.0**14]) == 2.0**14
    assert median_low([3.0, 1.0, 2.0, math.nan]) == 2.0
    assert math.isnan(median_low([math.nan]))
