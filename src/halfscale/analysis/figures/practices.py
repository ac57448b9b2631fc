"""Wrong ways and remedies: what each costs in final loss against the right way, beside what it skips and loses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.figures.final_gap import scale_axis
from halfscale.analysis.style import (
    CAUSES,
    FAMILIES,
    MUTED,
    SMALL,
    key_above,
    no_data,
    rows_of_arms,
    side_heading,
    side_note,
)

INPUTS = ("tables/practices.csv", "tables/practices_runs.csv")
TITLE = "Wrong ways and remedies"
CAPTION = (
    "Final training loss of each arm less that of the arm that its case is held against, in the same block. Small dots are "
    "blocks, the large one is their mean. Red: wrong ways, done on purpose. A run that PyTorch refused or that diverged has "
    "no final loss, and its row says so. At the right: share of the steps that were skipped, up to the first bad one, and "
    "share of the elements with a gradient whose weight an update left where it was. Where the costs span orders of magnitude the "
    "axis is linear between its innermost ticks and logarithmic beyond."
)

WRONG, RIGHT = CAUSES["sporadic"][1], FAMILIES["fp16 dynamic"][1]

SKIPPED_AT, LOST_AT = 8, 66
"""Columns at the right: their distance from the axes, points."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms, runs = read_table(folder, "practices"), read_table(folder, "practices_runs")
    rows = {str(case): own.to_dict("records") for case, own in arms.groupby("case", sort=False)}
    names = {case: [label(row) for row in own] for case, own in rows.items()}
    colours = {label(row): colour(row) for own in rows.values() for row in own}
    against = {str(case): str(own["reference"].iloc[0]) for case, own in arms.groupby("case", sort=False)}
    figure, panels = rows_of_arms(names, colours, right=1.62, sharex=False)
    for case, ax in panels.items():
        own = runs[runs["case"] == case]
        costs = {str(arm): group["cost"].dropna().to_numpy(float) for arm, group in own.groupby("arm", sort=False)}
        drawn = np.concatenate([np.zeros(0), *costs.values()])
        ax.axvline(0, color=MUTED, linewidth=0.7, zorder=1)
        for place, row in enumerate(rows[case]):
            draw_arm(ax, place, row, costs[str(row["arm"])])
        scale_axis(ax, drawn, 0.0)
        if not len(drawn):
            ax.set_xticks([])
            ax.set_xlim(0, 1)
            no_data(ax)
        for place, row in enumerate(rows[case]):
            if row["completed"] < row["n"]:
                note_ending(ax, place, row)
        ax.set_xlabel(f"final training loss less that of {against[case]}, same block (nats)")
        side_heading(ax, SKIPPED_AT, "skipped (%)")
        side_heading(ax, LOST_AT, "lost (%)")
    key_above(next(iter(panels.values())), marks())
    return figure


def label(row: Mapping[Any, Any]) -> str:
    """Return an arm's name, and in brackets whether it is a wrong way, or what the others are held against."""
    if row["arm"] == row["reference"]:
        return f"{row['arm']} (reference)"
    return str(row["arm"]) if pd.isna(row["pitfall"]) else f"{row['arm']} (wrong)"


def colour(row: Mapping[Any, Any]) -> str:
    if row["arm"] == row["reference"]:
        return MUTED
    return RIGHT if pd.isna(row["pitfall"]) else WRONG


def share(value: float) -> str:
    """Return a share as a percentage in as many digits as can be read."""
    percent = 100 * value
    return "<0.01" if 0 < percent < 0.01 else f"{percent:.3g}"


def draw_arm(ax: Axes, place: int, row: Mapping[Any, Any], costs: np.ndarray) -> None:
    """Draw one arm on its row: the mean, the blocks just below, and its notes at the right."""
    if len(costs):
        ax.plot(costs.mean(), place - 0.1, "o", color=colour(row), markersize=4.5)
        below = place + np.linspace(0.2, 0.38, len(costs))  # one below the other: blocks may agree
        ax.plot(costs, below, "o", color=colour(row), markersize=2.2, markeredgewidth=0)
    steps = int(row["steps"])
    side_note(ax, place, SKIPPED_AT, share(row["skipped"] / steps) if steps else "–")
    side_note(ax, place, LOST_AT, share(row["lost_updates"]) if pd.notna(row["lost_updates"]) else "–")


def note_ending(ax: Axes, place: int, row: Mapping[Any, Any]) -> None:
    """Say in an arm's row how many of its runs were refused or diverged."""
    parts = [f"{row[status]} of {row['n']} {text}" for status, text in ENDINGS.items() if row[status]]
    ax.annotate(
        ", ".join(parts),
        (0.02, place),
        xycoords=ax.get_yaxis_transform(),
        va="center",
        size=SMALL,
        color=colour(row),
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
    )


ENDINGS = {"refused": "refused by PyTorch", "diverged": "diverged"}


def marks() -> list[Line2D]:
    """Return what the colours mean."""
    look: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linestyle": ""}
    return [Line2D([], [], color=WRONG, label="wrong way", **look), Line2D([], [], color=RIGHT, label="other", **look)]
