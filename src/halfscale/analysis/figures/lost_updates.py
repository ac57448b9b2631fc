"""Share of the updates that would leave a weight of half precision where it is: why the weights are kept in FP32."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from halfscale.analysis.figures._inputs import read_arms, read_table
from halfscale.analysis.figures._samples import side_by_side
from halfscale.analysis.style import FAMILIES, SMALL, no_data

INPUTS = ("tables/samples.csv", "plan.json")
TITLE = "Updates that half-precision weights would lose"
CAPTION = (
    "Of the weights that a step of the FP32 reference moves, the share that the same update would not move if the weight "
    "were kept in BF16 or in FP16: the update is smaller than half of the gap to the next number. Thin lines: blocks; "
    "thick: their mean. Weights are FP32 in every arm of the study, and none of these updates is lost in it."
)

HEIGHT, HEAD, RIGHT = 1.35, 0.28, 0.5
"""Inches: of a panel, above it, and at its right, for the names of the lines."""

LINES = {"lost_bf16": ("BF16", FAMILIES["bf16"][1]), "lost_fp16": ("FP16", FAMILIES["fp16 dynamic"][1])}


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms, samples = read_arms(folder), read_table(folder, "samples")
    samples = samples[samples["arm"] == arms.reference]
    figure, panels = side_by_side(arms.workloads, (HEIGHT,), HEAD, RIGHT)
    for index, (workload, (ax,)) in enumerate(zip(arms.workloads, panels, strict=True)):
        draw_workload(ax, samples[(samples["workload"] == workload) & samples["lost_bf16"].notna()])
        ax.set_xlabel("optimizer step")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        if index % 2 == 0:
            ax.set_ylabel("updates lost (%)")
    return figure


def draw_workload(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the lines of one workload, each with its name at its end."""
    if rows.empty:
        no_data(ax)
        return
    top = min(100.0, max(5.0, 120 * float(rows[list(LINES)].to_numpy(dtype=float).max())))
    ax.set_ylim(-0.02 * top, 1.02 * top)
    ends = {}
    for name, (_, colour) in LINES.items():
        blocks = 100 * rows.pivot_table(index="step", columns="seed", values=name)
        for seed in blocks:
            ax.plot(blocks.index, blocks[seed], color=colour, linewidth=0.5, alpha=0.6, marker=".", markersize=2)
        mean = blocks.mean(axis=1)
        ax.plot(mean.index, mean, color=colour, linewidth=1.6)
        ends[name] = float(mean.iloc[-1])
    for name, height in apart(ends, 0.11 * top).items():
        label, colour = LINES[name]
        ax.annotate(
            label,
            (1, height),
            (4, 0),
            xycoords=ax.get_yaxis_transform(),
            textcoords="offset points",
            va="center",
            size=SMALL,
            color=colour,
        )


def apart(heights: dict[str, float], least: float) -> dict[str, float]:
    """Return two heights moved to at least so far from each other, about their middle."""
    low, high = sorted(heights, key=lambda name: heights[name])
    missing = max(0.0, least - (heights[high] - heights[low])) / 2
    return {low: heights[low] - missing, high: heights[high] + missing}
