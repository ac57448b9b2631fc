"""Rows of devices by case, with a colour for each precision: the layout of what is predicted for hardware."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from halfscale.analysis.figures._variants import FAMILY
from halfscale.analysis.style import FAMILIES, INK, key_above, rows_of_arms


def devices_of_cases(table: pd.DataFrame, right: float) -> tuple[Figure, dict[str, Axes], dict[str, str]]:
    """Return a figure of one panel a case with a row for each device, and the colour of each precision.

    Args:
        table: with columns case, device and precision.
        right: inches to keep free at the right.
    """
    devices = {str(case): own["device"].unique().tolist() for case, own in table.groupby("case", sort=False)}
    figure, panels = rows_of_arms(devices, dict.fromkeys(table["device"].unique(), INK), right, sharex=False)
    precisions = [name for name in FAMILY if name in set(table["precision"])]
    return figure, panels, {name: FAMILIES[FAMILY[name]][1] for name in precisions}


def mark_precisions(panels: Mapping[str, Axes], colours: Mapping[str, str]) -> None:
    """Say above the first panel which colour is which precision."""
    marks = [
        Line2D([], [], marker="o", linestyle="", color=colour, markersize=4, label=name)
        for name, colour in colours.items()
    ]
    key_above(next(iter(panels.values())), marks)
