"""The first instability of traces that are written down step by step."""

import numpy as np
import pandas as pd
import pytest

from halfscale.analysis.instability import CAUSES, SIGMAS, first_instability, spikes, window_of
from halfscale.analysis.skips import skip_causes


def make_trace(steps, *, loss=None, skipped=(), growth=()):
    numbers = np.arange(steps)
    return pd.DataFrame(
        {
            "loss": np.cos(numbers) if loss is None else np.asarray(loss, dtype=np.float32),
            "skipped": np.isin(numbers, skipped),
            "growth": np.isin(numbers, growth),
        }
    )


def first(trace, bad=None, steps=None):
    return first_instability(trace, skip_causes(trace), bad, len(trace) if steps is None else steps)


def test_a_calm_run_has_none():
    assert first(make_trace(60)) is None


def test_a_step_skipped_in_calibration_is_none():
    assert first(make_trace(60, skipped=[0, 1, 2])) is None


def test_a_growth_probe_is_one_and_so_is_a_sporadic_skip():
    assert first(make_trace(60, skipped=[0, 21, 40], growth=[20])) == (21, "growth_probe")
    assert first(make_trace(60, skipped=[0, 15, 21], growth=[20])) == (15, "sporadic")


def test_divergence_is_one_and_outranks_what_else_is_at_its_step():
    assert first(make_trace(60), bad=33) == (33, "divergence")
    assert first(make_trace(60, skipped=[33]), bad=33) == (33, "divergence")
    assert first(make_trace(60, skipped=[20]), bad=33) == (20, "sporadic")
    assert CAUSES[0] == "divergence"


def test_a_spike_is_a_loss_far_above_those_before():
    """Before step 30 the last 15 losses are 1 and 2 in turn: with 2 first, mean 22/15 and variance 8/15 x 7/14."""
    loss = np.where(np.arange(60) % 2, 2.0, 1.0)
    mean, sd = loss[15:30].mean(), loss[15:30].std(ddof=1)
    assert sd == pytest.approx(np.sqrt(8 / 15 * 7 / 14))
    for factor, found in ((0.99, None), (1.01, (30, "spike"))):
        loss[30] = mean + factor * SIGMAS * sd
        assert first(make_trace(60, loss=loss)) == found


def test_a_fall_is_no_spike():
    loss = np.where(np.arange(60) % 2, 2.0, 1.0)
    loss[30] = -100
    assert first(make_trace(60, loss=loss)) is None


def test_the_first_window_is_not_judged_nor_is_what_is_not_finite():
    loss = np.ones(60)
    loss[14] = 100
    assert not spikes(pd.Series(loss), 15).any()
    loss[[14, 59]] = [1, np.inf]
    assert not spikes(pd.Series(loss), 15).any()


def test_equal_losses_are_no_spike_and_the_first_above_them_is():
    loss = np.ones(60)
    assert not spikes(pd.Series(loss), 15).any()
    loss[40] = 1.5
    assert np.flatnonzero(spikes(pd.Series(loss), 15)).tolist() == [40]


@pytest.mark.parametrize(("steps", "window"), [(5, 10), (40, 10), (60, 15), (105, 26), (4000, 1000), (10005, 1000)])
def test_the_window_is_a_quarter_of_the_run_within_bounds(steps, window):
    assert window_of(steps) == window


def test_a_run_that_ends_early_is_judged_by_the_window_of_the_whole():
    loss = np.where(np.arange(30) % 2, 2.0, 1.0)
    loss[20] = 50
    assert first(make_trace(30, loss=loss), steps=40) == (20, "spike")
    assert first(make_trace(30, loss=loss), steps=400) is None


def test_noise_alone_is_seldom_taken_for_a_spike():
    """Student's t with 9 degrees of freedom, 7 / sqrt(1.1) SD out: 5 steps in 100,000 in the shortest window of 10."""
    loss = pd.Series(np.random.default_rng(0).standard_normal(200_000))
    assert 2e-5 < spikes(loss, 10).mean() < 9e-5
    assert spikes(loss, 25).mean() < 2e-5
