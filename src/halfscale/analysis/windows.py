"""The operating window of a gradient: the loss scales at which FP16 neither loses its small elements nor overflows.

It reaches from the smallest scale at which FP16's gradient is as good as it gets to the largest at which it is finite.
Scales are exponents of two throughout, so that a window's width is in bits. Gradients: as study/probings.py has them.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

AS_GOOD = 1.1
"""Times the plateau: what errs no more than that is as good as it gets."""

ZEROS = 1.0
"""Relative error of a gradient of zeros: what errs as much tells nothing of the true one."""


class Window(NamedTuple):
    """The operating window of a gradient, as exponents; None where there is none."""

    plateau: float | None
    """Relative error at the largest finite scale. A power of two changes no rounding, so that it is the error at every
    scale at which nothing under- or overflows."""
    low: int | None
    """Lowest scale down to which, from the upper end and without a break, the error is within AS_GOOD times the plateau."""
    high: int | None
    """Largest scale at which no element overflows."""
    low_open: bool
    """Whether the lower end is the lowest scale that was tried: the true one may be lower."""
    high_open: bool
    """Whether the upper end is the highest scale that was tried: the true one may be higher."""


class Common(NamedTuple):
    """Where the windows of all parameters overlap, as exponents; low is above high where they do not.

    Both are None where a parameter has no window, and where there is no parameter that could have one.
    """

    low: int | None
    high: int | None
    low_open: bool
    high_open: bool
    noise: int
    """Parameters whose gradient is rounding noise; they take no part."""
    without: int
    """Other parameters that have no window."""


def window_of(curve: pd.DataFrame) -> Window:
    """Return the window of one gradient from its FP16 rows, one a scale.

    There is none where the gradient is finite at no scale, and where the plateau is no better than a gradient of zeros.
    """
    tried = curve.sort_values("exponent", ascending=False)
    known = ~tried["overflow"] & tried["error"].notna()
    if not known.any():
        return Window(None, None, None, low_open=False, high_open=False)
    down = tried[known.cummax()]
    plateau, high = float(down["error"].iloc[0]), int(down["exponent"].iloc[0])
    if plateau >= ZEROS:
        return Window(plateau, None, None, low_open=False, high_open=False)
    good = known[down.index] & (down["error"] <= AS_GOOD * plateau)
    low = int(down["exponent"][np.logical_and.accumulate(good)].iloc[-1])
    return Window(
        plateau,
        low,
        high,
        low_open=low == int(tried["exponent"].iloc[-1]),
        high_open=high == int(tried["exponent"].iloc[0]),
    )


def crossover(curve: pd.DataFrame, bf16_error: float | None) -> int | None:
    """Return the smallest scale from which on FP16 is no worse than BF16; None where BF16 is not known or never worse."""
    finite = curve[~curve["overflow"] & curve["error"].notna()].sort_values("exponent")
    if bf16_error is None or finite.empty or finite["error"].iloc[-1] > bf16_error:
        return None
    worse = finite.loc[finite["error"] > bf16_error, "exponent"]
    return int(
        finite["exponent"].min() if worse.empty else finite.loc[finite["exponent"] > worse.max(), "exponent"].min()
    )


def bf16_error_of(gradient: pd.DataFrame) -> float | None:
    """Return the relative error of one gradient in BF16; None where that is not known."""
    error = gradient.loc[gradient["precision"] == "bf16", "error"].dropna()
    return None if error.empty else float(error.iloc[0])


def is_noise(window: Window, bf16_error: float | None) -> bool:
    """Return whether a gradient is rounding noise: neither format gives more of it than a gradient of zeros would.

    So is one that is zero but for rounding, as that of a bias which softmax or a normalisation after it takes away.
    Where BF16 is not known, nothing is called noise.
    """
    plateau = window.plateau
    return plateau is not None and bf16_error is not None and plateau >= ZEROS and bf16_error >= ZEROS


def layer_windows(gradients: pd.DataFrame) -> pd.DataFrame:
    """Return one row a parameter whose FP32 gradient is not zero: its window, and whether its gradient is noise.

    Args:
        gradients: of one step.
    """
    own = gradients[(gradients["parameter"] != "") & (gradients["norm"] > 0)]
    rows: list[dict[str, Any]] = []
    for parameter, each in own.groupby("parameter", sort=False):
        window, bf16_error = window_of(each[each["precision"] == "fp16"]), bf16_error_of(each)
        rows.append(
            {
                "parameter": parameter,
                **window._asdict(),
                "bf16_error": bf16_error,
                "noise": is_noise(window, bf16_error),
                "norm": each["norm"].iloc[0],
                "largest": each["largest"].iloc[0],
            }
        )
    columns = ["parameter", *Window._fields, "bf16_error", "noise", "norm", "largest"]
    types = {"low": "Int64", "high": "Int64", "plateau": "float64", "bf16_error": "float64"}
    flags = dict.fromkeys(("low_open", "high_open", "noise"), "bool")
    return pd.DataFrame(rows, columns=columns).astype(types | flags)


def common_window(layers: pd.DataFrame) -> Common:
    """Return where the windows of all parameters overlap that are no noise.

    Args:
        layers: as layer_windows gives them.
    """
    noise = int(layers["noise"].sum())
    others = layers[~layers["noise"]]
    without = int(others["low"].isna().sum())
    if without or others.empty:
        return Common(None, None, low_open=False, high_open=False, noise=noise, without=without)
    low, high = int(others["low"].max()), int(others["high"].min())
    return Common(
        low,
        high,
        low_open=bool(others.loc[others["low"] == low, "low_open"].all()),
        high_open=bool(others.loc[others["high"] == high, "high_open"].all()),
        noise=noise,
        without=without,
    )
