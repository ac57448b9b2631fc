"""Final training loss less the reference's in the same block: a forest of arms."""

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from halfscale.analysis.figures._inputs import choose_arms, diverged_by_arm, read_arms, read_table
from halfscale.analysis.statistics import Mean, mean_with_interval
from halfscale.analysis.style import (
    MUTED,
    SMALL,
    add_to_caption,
    no_data,
    rows_of_arms,
    side_heading,
    side_note,
    signed,
)

INPUTS = ("plan.json", "tables/runs.csv", "tables/gaps.csv")
TITLE = "Final loss gap to FP32 within blocks"
CAPTION = (
    "Final training loss of each arm (mean of the last tenth of the steps) less that of the FP32 reference in the "
    "same block, that is, with the same initial weights and the same batches in the same order. Small dots are "
    "blocks; the large one is their mean with its 95 % Student t interval, also given at the right, beside the number "
    "of runs that diverged and so have no gap. Grey band: plus and minus the largest gap of the reference's twin, "
    "whose initial weights were moved by one unit in the last place; a gap inside it is no larger than what rounding "
    "alone does. Where the gaps span orders of magnitude the axis is linear between its innermost ticks and "
    "logarithmic beyond."
)

OTHER_RATES = "The gap of an arm at another learning rate is to the arm with the reference's settings at that rate, if there is one."

MOST_ARMS = 24
"""Arms that the figure has room for; with more, its type would be too small on a page."""

MILLI = "$10^{-3}$ nats"
MEAN_AT, DIVERGED_AT = 8, 136
"""Columns at the right: their distance from the axes, points."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms = read_arms(folder)
    colours = arms.colours
    runs = read_table(folder, "runs")
    diverged = diverged_by_arm(runs)
    gaps = read_table(folder, "gaps")
    gaps["gap"] *= 1000
    compared = arms.references
    shown = choose_arms(
        arms,
        runs,
        {
            workload: [
                arm.name
                for arm in arms.in_order(name for where, name in diverged if where == workload)
                if arm.name != compared[arm.name]
            ]
            for workload in arms.workloads
        },
        MOST_ARMS,
    )
    figure, panels = rows_of_arms(shown.arms, colours, right=2.36, sharex=False, heading=shown.heading)
    rates = {compared[name] for names in shown.arms.values() for name in names} - {arms.reference}
    add_to_caption(figure, shown.sentence(), OTHER_RATES if rates else "")
    for workload, ax in panels.items():
        here = gaps[gaps["workload"] == workload]
        blocks = {name: here.loc[here["arm"] == name, "gap"].to_numpy(float) for name in shown.arms[workload]}
        means = {name: mean_with_interval(values) for name, values in blocks.items()}
        for row, name in enumerate(blocks):
            draw_arm(ax, row, blocks[name], means[name], colours[name])
            bad, total = diverged[workload, name]
            side_note(ax, row, MEAN_AT, in_words(means[name]))
            side_note(ax, row, DIVERGED_AT, f"{bad} of {total}")
        side_heading(ax, MEAN_AT, f"mean [95 % interval], {MILLI}")
        side_heading(ax, DIVERGED_AT, "diverged")
        noise = here.loc[here["arm"].isin(arms.twins), "gap"].abs().max()
        here = here[here["arm"].isin(shown.arms[workload])]
        draw_zero(ax, noise)
        drawn = np.array([value for mean in means.values() for value in mean[:3]] + here["gap"].tolist())
        scale_axis(ax, drawn[np.isfinite(drawn)], noise)
        if not here["gap"].notna().any():
            no_data(ax)
        ax.set_xlabel(f"final training loss less that of {arms.reference}, same block ({MILLI})")
    return figure


def draw_arm(ax: Axes, row: int, gaps: np.ndarray, mean: Mean, colour: str) -> None:
    """Draw one arm: mean and interval on its row, its blocks just below."""
    ax.plot([mean.low, mean.high], [row - 0.1, row - 0.1], color=colour, linewidth=1.2)
    ax.plot(mean.mean, row - 0.1, "o", color=colour, markersize=4.5)
    ax.plot(gaps, np.full(len(gaps), row + 0.28), "o", color=colour, markersize=2.2, markeredgewidth=0)


def draw_zero(ax: Axes, noise: float) -> None:
    """Draw the line of no gap, and the noise floor around it where it is known."""
    ax.axvline(0, color=MUTED, linewidth=0.7, zorder=1)
    if noise > 0:
        ax.axvspan(-noise, noise, color="#e6e6e6", linewidth=0, zorder=0)
        ax.annotate(
            "noise floor",
            (0, 1),
            (0, 3),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            ha="center",
            size=SMALL,
            color=MUTED,
        )


def in_words(mean: Mean) -> str:
    """Return a mean and its interval as text, to two digits of the interval's half width; a dash where there is none."""
    if mean.n == 0:
        return "–"
    spread = (mean.high - mean.low) / 2 if mean.n > 1 else abs(mean.mean)
    decimals = max(0, 1 - math.floor(math.log10(spread))) if spread > 0 else 0
    power = decimals - 1 if decimals > 4 else 0  # a string of zeros is read more easily as a power of ten
    interval = f" [{signed(mean.low * 10**power, decimals - power)}, {signed(mean.high * 10**power, decimals - power)}]"
    unit = f" $\\times 10^{{-{power + 3}}}$ nats" if power else ""  # the column is in 1e-3 nats, this row in its own
    return signed(mean.mean * 10**power, decimals - power) + (interval if mean.n > 1 else "") + unit


def scale_axis(ax: Axes, drawn: np.ndarray, noise: float) -> None:
    """Scale the x axis for these values: linear, or linear near zero and logarithmic beyond.

    One arm that fails by a nat would else squeeze into one dot all those that differ by a thousandth.
    """
    sizes = np.abs(drawn)
    near = noise if noise > 0 else np.median(sizes[sizes > 0]) if sizes.any() else 0.0
    if not sizes.any() or sizes.max() <= 20 * near:
        ax.xaxis.set_major_locator(MaxNLocator(7))
        return
    first, last = math.ceil(math.log10(near)), math.ceil(math.log10(sizes.max()))
    linear = 10.0**first
    ax.set_xscale("symlog", linthresh=linear, linscale=1.0)
    ax.set_xlim(1.4 * min(drawn.min(), -linear), 1.4 * max(drawn.max(), linear))
    every = math.ceil((last - first + 1) / 3)  # more than three labels a side run into each other
    powers = 10.0 ** np.arange(last, first - 1, -every)[::-1]
    ax.xaxis.set_major_locator(FixedLocator([*-powers[::-1], 0.0, *powers]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−")))
