"""How the magnitudes of gradients are distributed, against what each format can hold, and what a loss scale does to that."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MultipleLocator

from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.figures._samples import first_middle_last, side_by_side
from halfscale.analysis.figures.operating_window import looks
from halfscale.analysis.probe import DEFAULT
from halfscale.analysis.style import FAMILIES, MUTED, key_above, no_data, note
from halfscale.numerics.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, Format

INPUTS = ("tables/exponents.csv",)
TITLE = "Gradient exponents and the formats' ranges"
CAPTION = (
    "Magnitudes of the gradients of the FP32 reference, of all blocks together, by binade: share of the elements that are "
    "neither zero nor subnormal in FP32, at the first, the middle and the last sampled step. Dashed: the last of them times "
    "65536, GradScaler's default scale. Bars: what a format holds, pale where with fewer bits, as subnormal numbers. "
    "Dotted: the smallest number of FP16, its smallest normal number, and where it overflows; BF16 reaches beyond the axis "
    "on both sides. The note says which share of the last step's elements rounds to zero in FP16, and which is subnormal, "
    "without a scale and with it."
)

PANEL, BARS, HEAD = 1.7, 0.72, 0.4
"""Heights, inches: of the histograms, of the ranges below them, and above both."""

NAMES = {FP16: "FP16", BF16: "BF16", FP8_E5M2: "FP8 E5M2", FP8_E4M3: "FP8 E4M3"}
COLOURS = {
    FP16: FAMILIES["fp16 dynamic"][1],
    BF16: FAMILIES["bf16"][1],
    FP8_E5M2: "#7a7a7a",
    FP8_E4M3: "#7a7a7a",
}

LEAST = 1e-5
"""A binade with a smaller share than this at every step is not worth its place on the axis."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    table = read_table(folder, "exponents")
    workloads = table["workload"].unique().tolist() or [""]
    figure, panels = side_by_side(workloads, (PANEL, BARS), HEAD)
    for index, (workload, (ax, bars)) in enumerate(zip(workloads, panels, strict=True)):
        draw_workload(ax, bars, table[(table["workload"] == workload) & table["exponent"].notna()])
        if index % 2 == 0:
            ax.set_ylabel("elements (%)")
    return figure


def draw_workload(ax: Axes, bars: Axes, rows: pd.DataFrame) -> None:
    """Draw the histograms of one workload, and the ranges below them."""
    shares = shares_by_step(rows)
    draw_formats(bars)
    for panel in (ax, bars):
        for limit in (FP16.smallest_subnormal, FP16.smallest_normal, FP16.largest):
            panel.axvline(math.log2(limit), color=MUTED, linewidth=0.8, linestyle=":")
    bars.set_xlabel("magnitude of a gradient element")
    bars.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"$2^{{{value:.0f}}}$"))
    bars.xaxis.set_major_locator(MultipleLocator(16))
    ax.set_ylim(bottom=0)
    if shares.empty:
        ax.set_xlim(-48, 20)
        no_data(ax)
        return
    marks = []
    steps = first_middle_last([int(step) for step in shares.columns])
    edges = np.append(shares.index.to_numpy(), shares.index.max() + 1)
    percent = {step: 100 * shares[step].to_numpy(dtype=float) for step in steps}
    for look, step in zip(looks(len(steps)), steps, strict=True):
        ax.stairs(percent[step], edges, color=look["color"], linestyle=look["linestyle"], baseline=None)
        marks.append(Line2D([], [], **look, label=f"step {step}"))
    scaled: dict[str, Any] = {"color": FAMILIES["fp16 static"][1], "linestyle": (0, (4, 2))}
    ax.stairs(percent[steps[-1]], edges + DEFAULT, baseline=None, **scaled)
    marks.append(Line2D([], [], **scaled, label=f"times $2^{{{DEFAULT}}}$"))
    seen = edges[:-1][(shares > LEAST).any(axis=1).to_numpy()]
    ax.set_xlim(min(-28, int(seen.min())) - 1, max(18, int(seen.max()) + DEFAULT + 2))
    ax.set_ylim(0, 1.45 * max(values.max() for values in percent.values()))  # with room for the note
    note(ax, 0.02, 0.98, in_words(shares[steps[-1]]), va="top", ha="left", linespacing=1.4)
    key_above(ax, marks)


def shares_by_step(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of elements by exponent (rows, without a gap) and step (columns)."""
    if rows.empty:
        return pd.DataFrame()
    counts = rows.pivot_table(index="exponent", columns="step", values="count", aggfunc="sum", fill_value=0)
    counts.index = counts.index.astype(int)
    counts = counts.reindex(range(counts.index.min(), counts.index.max() + 1), fill_value=0)
    return counts / counts.sum()


def in_words(shares: pd.Series) -> str:
    """Return which shares FP16 flushes to zero and holds as subnormal numbers, without a scale and with it."""
    tiny, small = round(math.log2(FP16.smallest_subnormal)) - 1, round(math.log2(FP16.smallest_normal))
    lines = ["FP16: zero, subnormal"]
    values = 100 * shares.to_numpy(dtype=float)
    for name, shift in (("unscaled", 0), (f"$\\times 2^{{{DEFAULT}}}$", DEFAULT)):
        exponents = shares.index.to_numpy() + shift
        zero = values[exponents < tiny].sum()
        subnormal = values[(exponents >= tiny) & (exponents < small)].sum()
        lines.append(f"{name}: {zero:.1f} %, {subnormal:.1f} %")
    return "\n".join(lines)


def draw_formats(ax: Axes) -> None:
    """Draw the range of each format as a bar, its subnormal part pale."""
    for row, kind in enumerate(NAMES):
        low, normal, high = limits(kind)
        ax.barh(row, high - normal, left=normal, height=0.5, color=COLOURS[kind], linewidth=0)
        ax.barh(row, normal - low, left=low, height=0.5, color=COLOURS[kind], alpha=0.35, linewidth=0)
    ax.set_ylim(len(NAMES) - 0.4, -0.6)  # the first on top
    ax.set_yticks(range(len(NAMES)), list(NAMES.values()))
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")


def limits(kind: Format) -> tuple[float, float, float]:
    """Return the exponents of a format's smallest number, its smallest normal one, and its largest."""
    return math.log2(kind.smallest_subnormal), math.log2(kind.smallest_normal), math.log2(kind.largest)
