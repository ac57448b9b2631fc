"""Distance of the weights from those of the FP32 reference, in units of what one ulp comes to."""

from itertools import chain
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from halfscale.analysis.figures._inputs import Arms, choose_arms, diverged_by_arm, read_arms, read_table
from halfscale.analysis.style import INK, add_to_caption, most_lines, no_data, note, small_multiples, wrap

INPUTS = ("tables/samples.csv", "tables/runs.csv", "plan.json")
TITLE = "Distance from FP32"
CAPTION = (
    "Distance of the weights from those of the FP32 reference in the same block, before a step: a line a block, the other "
    "arms in grey behind it. All panels of a workload share their axes, both logarithmic."
)
IN_UNITS = (
    "The unit is the distance that the reference's twin, whose initial weights differ by one ulp, has come to at the same "
    "step: where a line falls to one, the dotted line, the weights have parted no farther than rounding alone parts them. "
    "Of the loss that says nothing: runs that differ by an ulp may be as far apart as runs that learn differently."
)
PLAIN = "The study has no twin of the reference, so that the distance is the L2 norm of the difference itself."

MOST_ARMS = 24
"""Arms that the figure has room for; with more, its type would be too small on a page."""

NAME_WIDTH = 20
"""Characters of an arm's name above its panel before it is broken."""

GREY = "#cccccc"

NARROW, NARROWER = 30, 4
"""Ratios of the largest distance to the smallest below which powers of ten, and 1, 2 and 5, are too few for ticks."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms, runs, samples = read_arms(folder), read_table(folder, "runs"), read_table(folder, "samples")
    value = "distance_ratio" if samples["distance_ratio"].notna().any() else "distance"
    names = {workload: compared(arms, runs, workload) for workload in arms.workloads}
    shown = choose_arms(arms, runs, names, MOST_ARMS)
    figure, blocks = small_multiples(
        {workload: max(1, len(kept)) for workload, kept in shown.arms.items()},
        columns=4,
        title_lines=most_lines(chain(*shown.arms.values()), NAME_WIDTH),
        ylabel="distance (× twin's)" if value == "distance_ratio" else "distance (L2)",
        heading=shown.heading,
    )
    unit = IN_UNITS if value == "distance_ratio" else PLAIN
    add_to_caption(figure, unit, shown.sentence("tables/samples.csv has all"))
    counts = diverged_by_arm(runs)
    for workload, block in blocks.items():
        kept = shown.arms[workload]
        rows = samples[(samples["workload"] == workload) & samples["arm"].isin(kept) & samples[value].notna()]
        set_axes(block.panels[0], rows[rows[value] > 0], value)
        for ax, name in zip(block.panels, kept, strict=False):
            own = rows[rows["arm"] == name]
            draw_lines(ax, rows[rows["arm"] != name], value, GREY, 0.5)
            draw_lines(ax, own, value, arms.colours[name], 1.0)
            if value == "distance_ratio":
                ax.axhline(1, color=INK, linewidth=0.8, linestyle=":")
            if not (own[value] > 0).any():
                say_nothing(ax, own)
            diverged, total = counts[workload, name]
            if diverged:
                note(ax, 0.97, 0.22, f"diverged: {diverged} of {total}", ha="right", va="center")
            ax.set_title(wrap(name, NAME_WIDTH), loc="left", color=arms.colours[name], weight="bold")
        if not kept:
            no_data(block.panels[0])
    return figure


def compared(arms: Arms, runs: pd.DataFrame, workload: str) -> list[str]:
    """Return the arms of a workload that are neither their own reference nor its twin."""
    own = arms.in_order(runs.loc[runs["workload"] == workload, "arm"])
    return [arm.name for arm in own if arms.references[arm.name] != arm.name and arm.name not in arms.twins]


def set_axes(ax: Axes, rows: pd.DataFrame, value: str) -> None:
    """Make the axes of a workload's panels logarithmic, with room about the lines, and powers of ten at the ticks of a
    distance that spans several."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    first, last = (rows["step"].min(), rows["step"].max()) if len(rows) else (1, 100)
    low, high = (rows[value].min(), rows[value].max()) if len(rows) else (1.0, 1.0)
    if value == "distance_ratio":
        low, high = min(low, 1.0), max(high, 1.0)
    ax.set_xlim(first / 1.3, last * 1.3)
    narrow = high / low < NARROW
    room = 1.5 if narrow else 4
    ax.set_ylim(low / room, high * room)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:g}"))
    subs = (1, 1.5, 2, 3, 5, 7) if high / low < NARROWER else (1, 2, 5)
    ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=8) if narrow else LogLocator(numticks=5))
    if narrow:
        ax.yaxis.set_major_formatter(FuncFormatter(lambda distance, _: f"{distance:g}"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())


def draw_lines(ax: Axes, rows: pd.DataFrame, value: str, colour: str, width: float) -> None:
    """Draw a line a run, where the distance is not zero."""
    for _, run in rows[rows[value] > 0].groupby(["arm", "seed"], sort=False):
        ax.plot(run["step"], run[value], color=colour, linewidth=width, marker=".", markersize=2)


def say_nothing(ax: Axes, rows: pd.DataFrame) -> None:
    """Say why an arm has no line: nothing is known of it, or it never left the reference."""
    if rows.empty:
        no_data(ax)
    else:
        note(ax, 0.5, 0.5, "same weights", ha="center", va="center")
