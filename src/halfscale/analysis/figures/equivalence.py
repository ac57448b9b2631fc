"""Mean gap in final loss against the margin within which it counts as none: a forest of arms."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from halfscale.analysis.figures._inputs import choose_arms, read_arms, read_table
from halfscale.analysis.figures.final_gap import scale_axis
from halfscale.analysis.style import (
    MUTED,
    add_to_caption,
    key_above,
    no_data,
    rows_of_arms,
    side_heading,
    side_note,
)

INPUTS = ("tables/equivalence.csv", "tables/runs.csv", "plan.json")
TITLE = "Equivalence to FP32"
CAPTION = (
    "Final training loss of each arm less that of its reference in the same block: mean over blocks, with the interval that "
    "belongs to two one-sided t tests, 90 % where their level is 5 %. An interval within the shaded margin, which the config "
    "fixed in advance, shows that the difference is smaller than it. At the right, the blocks in which both runs completed, the p value of these tests "
    "and the verdict, both after Holm's correction over the comparisons of a workload. Open triangles: the smallest margin that as many blocks, with gaps that vary as these do, "
    "would show with 80 % power if there were no difference; where they lie outside the shaded band, more seeds are needed "
    "before equality can be shown. An arm with a diverged run is not comparable. Where the values span orders of "
    "magnitude the axis is linear between its innermost ticks and logarithmic beyond."
)

MOST_ARMS = 24
"""Arms that the figure has room for; with more, its type would be too small on a page."""

BAND = "#dcebe0"
BLOCKS_AT, P_AT, VERDICT_AT = 8, 44, 88
"""Columns at the right: their distance from the axes, points."""

REACH: dict[str, Any] = {"linestyle": "none", "markersize": 3.6, "markerfacecolor": "white", "markeredgewidth": 0.7}
"""How the smallest margin is marked, but for its colour and on which side it is."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms = read_arms(folder)
    table = read_table(folder, "equivalence")
    names = {workload: table.loc[table["workload"] == workload, "arm"].tolist() for workload in arms.workloads}
    shown = choose_arms(arms, read_table(folder, "runs"), names, MOST_ARMS)
    figure, panels = rows_of_arms(shown.arms, arms.colours, right=2.05, sharex=False, heading=shown.heading)
    add_to_caption(figure, shown.sentence("tables/equivalence.csv has all"))
    for workload, ax in panels.items():
        own = table[table["workload"] == workload].set_index("arm")
        rows = [{str(key): value for key, value in own.loc[arm].items()} for arm in shown.arms[workload]]
        draw_panel(ax, rows, [arms.colours[arm] for arm in shown.arms[workload]])
        ax.set_xlabel(f"final training loss less that of {arms.reference}, same block (nats)")
    key_above(next(iter(panels.values())), marks())
    return figure


def draw_panel(ax: Axes, rows: list[dict[str, Any]], colours: list[str]) -> None:
    """Draw the comparisons of one workload, a row each."""
    ax.axvline(0, color=MUTED, linewidth=0.7, zorder=1)
    ends = ("gap", "tost_low", "tost_high", "margin", "smallest_margin")
    drawn = np.array([float(row[end]) for row in rows for end in ends], dtype=np.float64)
    drawn = np.concatenate([drawn, -drawn[np.isfinite(drawn)]])  # margins lie on both sides
    for place, (row, colour) in enumerate(zip(rows, colours, strict=True)):
        draw_row(ax, place, row, colour)
    known = drawn[np.isfinite(drawn)]
    if any(pd.notna(row["gap"]) for row in rows):
        reaches = np.array([float(row["smallest_margin"]) for row in rows], dtype=np.float64)
        scale_axis(ax, known, float(np.nanmedian(reaches)) if np.isfinite(reaches).any() else 0.0)
    else:
        ax.set_xticks([])
        ax.set_xlim(-1, 1)
        no_data(ax)
    side_heading(ax, BLOCKS_AT, "blocks")
    side_heading(ax, P_AT, "p (equiv.)")
    side_heading(ax, VERDICT_AT, "verdict")


def draw_row(ax: Axes, place: int, row: Mapping[str, Any], colour: str) -> None:
    """Draw one comparison: its margin, mean and interval, what it could have shown, and its notes at the right."""
    if row["margin"] > 0:
        ax.fill_between([-row["margin"], row["margin"]], place - 0.5, place + 0.5, color=BAND, linewidth=0, zorder=0)
    ax.plot([row["tost_low"], row["tost_high"]], [place - 0.1] * 2, color=colour, linewidth=1.2)
    ax.plot(row["gap"], place - 0.1, "o", color=colour, markersize=4.5)
    if row["smallest_margin"] > 0:
        for side, marker in ((-1, "<"), (1, ">")):
            ax.plot(side * row["smallest_margin"], place + 0.27, marker=marker, color=colour, **REACH)
    side_note(ax, place, BLOCKS_AT, f"{row['n']} of {row['of']}")
    side_note(ax, place, P_AT, p_text(float(row["p_holm"])))
    side_note(ax, place, VERDICT_AT, str(row["verdict"]))


def p_text(p: float) -> str:
    """Return a p value as text, a dash where there is none."""
    if np.isnan(p):
        return "–"
    return "<0.001" if p < 1e-3 else f"{p:.3f}"


def marks() -> list[Patch | Line2D]:
    """Return what the marks mean."""
    reach = Line2D([], [], marker=">", color=MUTED, label="smallest margin in reach", **REACH)
    return [Patch(color=BAND, label="margin"), reach]
