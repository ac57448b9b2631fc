"""Two one-sided tests (TOST, Schuirmann 1987): is the mean of paired gaps within a margin of zero?

The mean is shown to be within the margin where both one-sided t tests refuse that it lies beyond: at level alpha, where
the 1 - 2 alpha interval of the mean lies within the margin.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, optimize, stats
from statsmodels.stats.weightstats import DescrStatsW

POWER = 0.8
"""Power that a margin must be shown with, for a number of seeds to be enough for it."""


class PValues(NamedTuple):
    """p values of tests of one mean."""

    equivalent: float
    """Of TOST: the larger of the two one-sided ones."""
    different: float
    """Of the two-sided t test of a mean of zero."""


def tost(gaps: ArrayLike, margin: float) -> PValues:
    """Return the p values of a mean gap.

    Gaps that are all the same leave no doubt about their mean: p is then 0 or 1.

    Args:
        gaps: two at least, finite, nats.
        margin: above 0, nats.
    """
    values = np.asarray(gaps, dtype=np.float64)
    if np.ptp(values) == 0:
        gap = float(values[0])
        return PValues(equivalent=float(abs(gap) >= margin), different=float(gap == 0))
    described = DescrStatsW(values)
    return PValues(float(described.ttost_mean(-margin, margin)[0]), float(described.ttest_mean(0)[1]))


@cache
def tost_power(margin: float, n: int, alpha: float) -> float:
    """Return the probability that TOST shows equivalence where the gaps are normal and their true mean is zero.

    With the gaps' own standard deviation s, TOST does so where |mean| < margin - t s / sqrt(n). Mean and s are
    independent, so that the probability given s, 2 Phi(sqrt(n) margin - t s) - 1, is averaged over the distribution of
    s, which is that of chi / sqrt(n - 1).

    Args:
        margin: in standard deviations of the gaps.
        n: gaps, two at least.
        alpha: level of the tests.
    """
    freedom = n - 1
    t = stats.t.isf(alpha, freedom)
    distribution = stats.chi(freedom, scale=1 / math.sqrt(freedom))

    def shown(s: float) -> float:
        return float(distribution.pdf(s) * (2 * stats.norm.cdf(math.sqrt(n) * margin - t * s) - 1))

    highest = min(math.sqrt(n) * margin / t, float(distribution.isf(1e-15)))
    return float(integrate.quad(shown, 0, highest, limit=200)[0])


@cache
def smallest_margin(n: int, alpha: float, power: float = POWER) -> float:
    """Return the smallest margin that n gaps show with this power where their true mean is zero, in units of their SD.

    NaN where n is too small for a test.
    """
    if n < 2:
        return math.nan
    high = 1.0
    while tost_power(high, n, alpha) < power:
        high *= 2
    return float(optimize.brentq(lambda margin: tost_power(margin, n, alpha) - power, 0.0, high, xtol=1e-10))
