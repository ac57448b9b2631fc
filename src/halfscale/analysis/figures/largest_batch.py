"""The largest batch that fits in each device, by precision: a row a device."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from halfscale.analysis.figures._devices import devices_of_cases, mark_precisions
from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.style import FAINT, side_heading, side_note

INPUTS = ("tables/largest_batch.csv",)
TITLE = "Largest batch by device"
CAPTION = (
    "Largest batch whose predicted peak fits in a device's memory, by precision, under CUDA autocast; at the right, the "
    "same in numbers. A ring is the largest batch that really ran on the device at hand. The axis is logarithmic: equal "
    "distances are equal factors."
)

AT = 8
"""The column at the right: its distance from the axes, points."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    table = read_table(folder, "largest_batch")
    figure, panels, colours = devices_of_cases(table, right=1.75)
    for case, ax in panels.items():
        rows = table[table["case"] == case]
        for row, device in enumerate(rows["device"].unique()):
            own = rows[rows["device"] == device]
            ax.plot(own["batch_size"], [row] * len(own), color=FAINT, linewidth=3, zorder=1)
            mark_batches(ax, row, own, colours)
            side_note(
                ax, row, AT, ", ".join(f"{one['precision']} {one['batch_size']:,}" for one in own.to_dict("records"))
            )
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.set_xlabel("largest batch that fits (samples)")
        side_heading(ax, AT, "samples")
    mark_precisions(panels, colours)
    return figure


def mark_batches(ax: Axes, row: int, own: pd.DataFrame, colours: dict[str, str]) -> None:
    """Mark each batch of a device: a dot where it is predicted, a ring where it ran."""
    for one in own.to_dict("records"):
        ran = one["how"] == "searched"
        fill = "none" if ran else colours[one["precision"]]
        ax.plot(one["batch_size"], row, "o", mec=colours[one["precision"]], mfc=fill, markersize=8 if ran else 5)
