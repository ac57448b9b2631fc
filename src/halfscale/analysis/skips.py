"""Why a step was skipped."""

import numpy as np
import pandas as pd

CAUSES = ("calibration", "growth_probe", "sporadic")
DTYPE = pd.CategoricalDtype(list(CAUSES))


def skip_causes(trace: pd.DataFrame) -> pd.Series:
    """Return the cause of each skipped step, null where no step was skipped.

    calibration: before the scale has settled, while one set too high comes down. It settles at the first clean step,
        after which it stays where it is, and has settled with the next clean step, or with a growth;
    growth_probe: the step right after a growth, which tries the doubled scale;
    sporadic: every other.

    Args:
        trace: steps in order, with the columns `skipped` and `growth` of records.TRACE.
    """
    skipped = trace["skipped"].to_numpy(dtype=bool)
    after_growth = trace["growth"].shift(fill_value=False).to_numpy(dtype=bool)
    clean_before = np.cumsum(~skipped) - ~skipped
    grown_before = np.cumsum(after_growth)
    calibrating = (clean_before < 2) & (grown_before == 0)
    codes = np.select([~skipped, calibrating, after_growth], [-1, 0, 1], default=2)
    return pd.Series(pd.Categorical.from_codes(codes, dtype=DTYPE), index=trace.index, name="skip_cause")
