"""Where the time of a step goes: forward, backward, optimizer, one bar a variant."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.figures._variants import variant_colours
from halfscale.analysis.style import MUTED, key_above, no_data, rows_of_arms, side_heading, side_note

INPUTS = ("tables/throughput.csv",)
TITLE = "Step time by phase"
CAPTION = (
    "Time of a training step on a fixed batch by phase: forward pass with the loss, backward pass, and optimizer with "
    "unscaling and clearing of gradients; medians over the blocks of the blocks' medians, which need not add up to that "
    "of the step. At the right, the median of "
    "the whole step, and the share of a step that waits for its batch when the loader makes it."
)

PHASES = {
    "forward": ("forward", "#3f6fae"),
    "backward": ("backward", "#9db8dc"),
    "optimizer": ("optimizer", "#e0a458"),
}
"""How a phase is written, and its colour."""

STEP_AT, WAITING_AT = 8, 62
"""Columns at the right: their distance from the axes, points."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    variants = read_table(folder, "throughput")
    timed = variants[variants["status"] == "timed"]
    shown = {
        str(workload): timed.loc[timed["workload"] == workload, "label"].tolist()
        for workload in variants["workload"].unique()
    }
    figure, panels = rows_of_arms(shown, variant_colours(variants), right=2.2, sharex=False)
    for workload, ax in panels.items():
        for row, variant in enumerate(timed[timed["workload"] == workload].to_dict("records")):
            left = 0.0
            for phase, (_, colour) in PHASES.items():
                width = variant[f"{phase}_ms"]
                ax.barh(row, width, left=left, height=0.66, color=colour, edgecolor="white", linewidth=0.5)
                left += width
            side_note(ax, row, STEP_AT, f"{variant['step_ms']:.3g} ms")
            flag = ", input-bound" if variant["input_bound"] else ""
            side_note(ax, row, WAITING_AT, f"{100 * variant['waiting']:.1f} %{flag}", MUTED)
        ax.set_xlim(left=0)
        ax.set_xlabel("time of a step (ms)")
        if shown[workload]:
            side_heading(ax, STEP_AT, "whole step")
            side_heading(ax, WAITING_AT, "waiting for data")
        else:
            no_data(ax)
    marks = [Patch(color=colour, label=label) for label, colour in PHASES.values()]
    key_above(next(iter(panels.values())), marks)
    return figure
