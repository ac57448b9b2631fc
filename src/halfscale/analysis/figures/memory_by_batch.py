"""Memory at the peak of a step by kind, against the batch: one panel a case and autocast."""

from itertools import product
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator

from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.style import INK, LARGE, MUTED, SMALL, TEXT_WIDTH, in_inches, no_data, write
from halfscale.study.step import Kind

INPUTS = ("tables/memory.csv",)
TITLE = "Memory of a step by kind"
CAPTION = (
    "Memory at the peak of one training step by kind, predicted with nothing allocated. Each group of bars is a batch "
    "size, and each bar a precision, as a share of the first in its group; above a bar, its size. CPU autocast and CUDA "
    "autocast may keep different tensors, so each has a panel. A 16-bit precision shrinks activations and what is derived "
    "from them, and adds 16-bit copies of the weights."
)

KINDS: dict[Kind, tuple[str, str]] = {
    "weights": ("weights", "#3b3b3b"),
    "optimizer": ("optimizer state", "#8a8a8a"),
    "gradients": ("gradients", "#e0a458"),
    "weight_copies": ("16-bit weight copies", "#b5172f"),
    "activations": ("activations", "#3f6fae"),
    "temporaries": ("temporaries", "#9db8dc"),
    "inputs": ("batch", "#7fb069"),
}
"""How a kind is written, and its colour, from the foot of a bar to its top."""

HEAD, PANEL_TITLE, HEIGHT, FOOT, LEFT, GAP, KEY = 0.24, 0.16, 1.35, 0.66, 0.5, 0.3, 0.25
"""Inches: a case's name, a panel's title, a panel, what stands below it, left margin, between panels, the key."""

BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
"""What is behind a size, so that no grid line crosses it."""

BARS = 0.62
"""Share of a panel's height that its highest bar takes; the rest is for the sizes above the bars."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    table = read_table(folder, "memory")
    cases, accountings = table["case"].unique(), table["accounting"].unique()
    row = HEAD + PANEL_TITLE + HEIGHT + FOOT
    top = KEY + row * len(cases)
    width = (TEXT_WIDTH - LEFT - GAP * (len(accountings) - 1) - 0.05) / len(accountings)
    figure = Figure(figsize=(TEXT_WIDTH, top))
    for (index, case), (column, accounting) in product(enumerate(cases), enumerate(accountings)):
        upper = top - KEY - row * index - HEAD - PANEL_TITLE
        place = (LEFT + column * (width + GAP), upper - HEIGHT, width, HEIGHT)
        ax = figure.add_axes(in_inches(figure, place))
        draw_bars(ax, table[(table["case"] == case) & (table["accounting"] == accounting)])
        ax.set_title(f"{str(accounting).upper()} autocast", loc="left", pad=3)
        ax.set_xlabel("precision and batch size (samples)", labelpad=16)
        if column == 0:
            write(figure, 0.05, upper + PANEL_TITLE + 0.05, str(case), size=LARGE, weight="bold")
            ax.set_ylabel("peak (% of the first bar)")
    marks = [Patch(color=colour, label=label) for label, colour in KINDS.values()]
    figure.legend(
        handles=marks, loc="upper right", ncols=len(marks), handlelength=0.9, handletextpad=0.4, columnspacing=0.9
    )
    return figure


def draw_bars(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw a group of bars for each batch size, one a precision."""
    ax.yaxis.set_major_locator(FixedLocator([0, 25, 50, 75, 100]))
    ax.grid(visible=False, axis="x")
    if rows.empty:
        no_data(ax)
        return
    precisions = rows["precision"].unique().tolist()
    bar = 0.84 / len(precisions)
    highest = 0.0
    ticks, names = [], []
    for group, (batch, own) in enumerate(rows.groupby("batch_size")):
        reference = own["peak"].iloc[0]
        for each in own.to_dict("records"):
            x = group + bar * (precisions.index(each["precision"]) - (len(precisions) - 1) / 2)
            foot = 0.0
            for kind, (_, colour) in KINDS.items():
                share = 100 * each[kind] / reference
                ax.bar(x, share, bottom=foot, width=0.9 * bar, color=colour)
                foot += share
            ax.text(
                x,
                foot + 3,
                size_text(each["peak"]),
                rotation=90,
                ha="center",
                va="bottom",
                size=SMALL,
                color=INK,
                bbox=BEHIND,
            )
            highest = max(highest, foot)
            ticks.append(x)
            names.append(str(each["precision"]))
        ax.annotate(
            str(batch),
            (group, 0),
            (0, -29),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            ha="center",
            va="center",
            size=SMALL,
        )
    ax.set_ylim(0, highest / BARS)
    ax.set_xticks(ticks, names, rotation=90)
    ax.tick_params(axis="x", length=0, pad=2, labelcolor=MUTED)
    ax.set_xlim(-0.6, rows["batch_size"].nunique() - 0.4)


def size_text(size: float) -> str:
    """Return bytes in MiB, or in GiB from 1 GiB on, with three digits."""
    unit, name = (2**30, "GiB") if size >= 2**30 else (2**20, "MiB")
    value = size / unit
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {name}"
