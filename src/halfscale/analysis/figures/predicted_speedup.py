"""The least time of a step by data sheet: its speed-up over FP32 on each device, by precision."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from halfscale.analysis.figures._devices import devices_of_cases, mark_precisions
from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.style import MUTED, side_heading, side_note

INPUTS = ("tables/roofline.csv",)
TITLE = "Predicted speed-up by hardware"
CAPTION = (
    "Speed-up over strict FP32 that data sheets allow: each operation takes the larger of its FLOP over the peak of its "
    "format and its bytes over the memory bandwidth, launches and caches left out. Dots: by the operations of each "
    "precision. Bars: the Amdahl bound, from the operations of FP32 alone. At the right, the least time of the step in "
    "FP32, and the share of it in convolutions, matrix products and attention."
)

STEP_AT, SHARE_AT = 8, 66
"""Columns at the right: their distance from the axes, points."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    table = read_table(folder, "roofline")
    figure, panels, colours = devices_of_cases(table, right=1.75)
    for case, ax in panels.items():
        rows = table[table["case"] == case]
        for row, device in enumerate(rows["device"].unique()):
            own = rows[rows["device"] == device]
            lower = own[own["precision"] != "fp32"].to_dict("records")
            for place, one in enumerate(lower):
                y = row + 0.24 * (place - (len(lower) - 1) / 2)
                colour = colours[one["precision"]]
                ax.plot([one["speedup"], one["amdahl"]], [y, y], color=colour, linewidth=0.8)
                ax.plot(one["amdahl"], y, "|", color=colour, markersize=5)
                ax.plot(one["speedup"], y, "o", color=colour, markersize=4)
            base = own[own["precision"] == "fp32"].iloc[0]
            side_note(ax, row, STEP_AT, f"{base['step_ms']:.3g} ms")
            side_note(ax, row, SHARE_AT, f"{100 * base['matrix_share']:.0f} %", MUTED)
        ax.axvline(1, color=MUTED, linewidth=0.8)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.set_xlabel("predicted speed-up over FP32 (ratio of least step times)")
        side_heading(ax, STEP_AT, "FP32 step")
        side_heading(ax, SHARE_AT, "in products")
    mark_precisions(panels, {name: colour for name, colour in colours.items() if name != "fp32"})
    return figure
