"""When a run first became unstable, and by what."""

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

Cause = Literal["divergence", "sporadic", "growth_probe", "spike"]

CAUSES: tuple[Cause, ...] = ("divergence", "sporadic", "growth_probe", "spike")
"""The gravest first: of two at the same step it is the one that counts.

divergence: the run's first bad step;
sporadic, growth_probe: a step skipped for this cause, as skip_causes tells them apart. One skipped in calibration says
    nothing of the run: its scale was chosen before the model was known;
spike: of the loss, as spikes finds them.
"""

SIGMAS = 7.0
"""Standard deviations above the rolling mean from which a loss is a spike, as OLMo 2 counts them (arXiv 2501.00656, 3.2)."""

LONGEST_WINDOW, SHORTEST_WINDOW, WINDOW_SHARE = 1000, 10, 4
"""Steps that mean and standard deviation are taken over: OLMo 2's 1000, but no more than a quarter of the run. Of fewer than
10 the standard deviation is too uncertain: that of 10 normal losses lets one of 20,000 pass for a spike."""


class Instability(NamedTuple):
    """The first instability of a run."""

    step: int
    cause: Cause


def window_of(steps: int) -> int:
    """Return over how many steps before it a loss is judged, in a run of so many steps."""
    return min(LONGEST_WINDOW, max(SHORTEST_WINDOW, steps // WINDOW_SHARE))


def spikes(loss: pd.Series, window: int) -> np.ndarray:
    """Return for each step whether its loss lies SIGMAS standard deviations or more above the mean of the `window` before.

    Steps with fewer before them are not judged, nor is a loss that is not finite: that is divergence.
    """
    before = loss.astype(np.float64).shift()
    rolling = before.rolling(window)
    above = loss - rolling.mean()
    return ((above > 0) & (above >= SIGMAS * rolling.std()) & np.isfinite(loss)).to_numpy()


def first_instability(
    trace: pd.DataFrame, causes: pd.Series, first_bad_step: int | None, steps: int
) -> Instability | None:
    """Return a run's first instability; None where there is none.

    Args:
        trace: steps in order, with the columns of records.TRACE.
        causes: of its skipped steps, as skip_causes gives them.
        first_bad_step: of a run that diverged.
        steps: that the run was to take.
    """
    found: dict[Cause, np.ndarray] = {
        "divergence": np.array([] if first_bad_step is None else [first_bad_step]),
        "sporadic": np.flatnonzero(causes == "sporadic"),
        "growth_probe": np.flatnonzero(causes == "growth_probe"),
        "spike": np.flatnonzero(spikes(trace["loss"], window_of(steps))),
    }
    first = [Instability(int(found[cause][0]), cause) for cause in CAUSES if len(found[cause])]
    return min(first, key=lambda each: each.step, default=None)
