"""Final loss against the learning rate, by arm."""

import math
from itertools import chain
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from halfscale.analysis.figures._inputs import choose_arms, read_arms, read_table
from halfscale.analysis.style import INK, add_to_caption, most_lines, note, small_multiples, wrap

INPUTS = ("tables/sensitivity.csv", "tables/sensitivity_runs.csv", "tables/runs.csv", "plan.json")
TITLE = "Sensitivity to the learning rate"
CAPTION = (
    "Final training loss against the peak learning rate, by arm: a dot is a run, the line goes through the means over seeds, and that of "
    "the FP32 reference is in grey behind it. A loss above the initial one, the dotted line, counts as the initial one, and so does "
    "that of a run that diverged, a cross. The number is the learning-rate sensitivity, what a rate of the sweep costs over the best one on average."
)

MOST_ARMS = 24
"""Arms that the figure has room for; with more, its type would be too small on a page."""

NAME_WIDTH = 20
"""Characters of an arm's name above its panel before it is broken."""

GREY = "#b8b8b8"


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms, table, runs = read_arms(folder), read_table(folder, "sensitivity"), read_table(folder, "sensitivity_runs")
    names = {str(workload): own["arm"].tolist() for workload, own in table.groupby("workload", sort=False)}
    shown = choose_arms(arms, read_table(folder, "runs"), names, MOST_ARMS)
    figure, blocks = small_multiples(
        {workload: len(kept) for workload, kept in shown.arms.items()},
        columns=4,
        title_lines=most_lines(chain(*shown.arms.values()), NAME_WIDTH),
        ylabel="final loss (nats)",
        heading=shown.heading,
        xlabel="peak learning rate",
    )
    add_to_caption(figure, shown.sentence("tables/sensitivity.csv has all"))
    for workload, block in blocks.items():
        here = runs[runs["workload"] == workload]
        rows = table[table["workload"] == workload]
        values = dict(zip(rows["arm"], rows["sensitivity"].astype(float), strict=True))
        reference = here[here["arm"] == rows["arm"].iloc[0]]
        for ax, name in zip(block.panels, shown.arms[workload], strict=True):
            draw_mean(ax, reference, GREY, 2.2)
            own = here[here["arm"] == name]
            draw_mean(ax, own, arms.colours[name], 1.0)
            draw_runs(ax, own, arms.colours[name])
            ax.axhline(float(here["initial_loss"].mean()), color=INK, linewidth=0.8, linestyle=":")
            ax.set_title(wrap(name, NAME_WIDTH), loc="left", color=arms.colours[name], weight="bold")
            note(ax, 0.5, 0.97, sensitivity(values[name]), ha="center", va="top")
        set_axes(block.panels[0], here)
    return figure


def draw_mean(ax: Axes, runs: pd.DataFrame, colour: str, width: float) -> None:
    """Draw the line through the means over seeds."""
    means = runs.groupby("lr")["loss"].mean()
    ax.plot(means.index, means, color=colour, linewidth=width)


def draw_runs(ax: Axes, runs: pd.DataFrame, colour: str) -> None:
    """Draw each run by itself, a cross where it diverged."""
    diverged = runs["status"] == "diverged"
    ax.plot(runs.loc[~diverged, "lr"], runs.loc[~diverged, "loss"], ".", color=colour, markersize=3)
    ax.plot(runs.loc[diverged, "lr"], runs.loc[diverged, "loss"], "x", color=INK, markersize=4, zorder=4)


def set_axes(ax: Axes, runs: pd.DataFrame) -> None:
    """Fit the axes that the panels of a workload share: logarithmic in the rate, with room above for the number."""
    ax.set_xscale("log")
    ax.set_xlim(runs["lr"].min() / 1.5, runs["lr"].max() * 1.5)
    ax.xaxis.set_major_locator(LogLocator(numticks=5))
    ax.xaxis.set_minor_locator(NullLocator())
    low, high = float(runs["loss"].min()), float(runs["initial_loss"].max())
    if high > low:  # else no run has a loss
        ax.set_ylim(low - 0.08 * (high - low), high + 0.35 * (high - low))
    ax.yaxis.set_major_locator(MaxNLocator(4))


def sensitivity(value: float) -> str:
    """Return a sensitivity as it is written, or that no run completed."""
    return f"{value:.3g} nats" if math.isfinite(value) else "none completed"
