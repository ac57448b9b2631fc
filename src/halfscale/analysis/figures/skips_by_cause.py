"""Skipped steps by cause, one bar an arm."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from halfscale.analysis.figures._inputs import choose_arms, diverged_by_arm, read_arms, read_table
from halfscale.analysis.style import (
    CAUSES,
    INK,
    add_to_caption,
    key_above,
    no_data,
    rows_of_arms,
    side_heading,
    side_note,
)

INPUTS = ("plan.json", "tables/runs.csv")
TITLE = "Skipped steps by cause"
CAPTION = (
    "Share of optimizer steps that were skipped because the gradients overflowed, over all runs of an arm, by cause: "
    "calibration (before the scale has settled), growth probe (the step right after a growth), and "
    "sporadic (all others). A diamond is one run. At the right, skipped steps of all steps, summed over the runs, and "
    "how many of these diverged. Only arms whose loss was scaled are shown: without a scaler no step is ever skipped."
)

MOST_ARMS = 24
"""Arms that the figure has room for; with more, its type would be too small on a page."""

SKIPPED_AT, DIVERGED_AT = 8, 72
"""Columns at the right: their distance from the axes, points."""

RUN: dict[str, Any] = {
    "linestyle": "none",
    "marker": "D",
    "color": INK,
    "markersize": 2.4,
    "markerfacecolor": "white",
    "markeredgewidth": 0.6,
}
"""How one run is marked."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms = read_arms(folder)
    colours = arms.colours
    runs = read_table(folder, "runs")
    diverged = diverged_by_arm(runs)
    scaled = runs[runs["loss_scaling"] != "none"]
    shown = choose_arms(
        arms,
        runs,
        {
            workload: [arm.name for arm in arms.in_order(scaled.loc[scaled["workload"] == workload, "arm"])]
            for workload in arms.workloads
        },
        MOST_ARMS,
    )
    figure, panels = rows_of_arms(shown.arms, colours, right=1.5, sharex=True, heading=shown.heading)
    add_to_caption(figure, shown.sentence())
    for workload, ax in panels.items():
        for row, name in enumerate(shown.arms[workload]):
            mine = runs[(runs["workload"] == workload) & (runs["arm"] == name)]
            draw_arm(ax, row, mine)
            bad, total = diverged[workload, name]
            side_note(ax, row, SKIPPED_AT, f"{mine['skipped'].sum():,} of {mine['steps'].sum():,}")
            side_note(ax, row, DIVERGED_AT, f"{bad} of {total}")
        if shown.arms[workload]:
            side_heading(ax, SKIPPED_AT, "skipped steps")
            side_heading(ax, DIVERGED_AT, "diverged")
        else:
            no_data(ax)
        ax.set_xlabel("skipped steps (% of steps)")
        ax.set_xlim(left=0, right=None if scaled["skipped"].any() else 1)
    add_key(panels[arms.workloads[0]])
    return figure


def draw_arm(ax: Axes, row: int, runs: pd.DataFrame) -> None:
    """Draw one arm: its bar by cause, and each of its runs."""
    left = 0.0
    for cause, (_, shade, _) in CAUSES.items():
        share = 100 * runs[f"skipped_{cause}"].sum() / runs["steps"].sum()
        ax.barh(row, share, left=left, height=0.72, color=shade, edgecolor="white", linewidth=0.5)
        left += share
    shares = 100 * runs["skipped"] / runs["steps"]
    ax.plot(shares, [row] * len(runs), **RUN, clip_on=False, zorder=4)


def add_key(ax: Axes) -> None:
    """Say what the marks mean, above the first panel."""
    marks: list[Artist] = [Patch(color=shade, label=label) for label, shade, _ in CAUSES.values()]
    marks.append(Line2D([], [], **RUN, label="one run"))
    key_above(ax, marks)
