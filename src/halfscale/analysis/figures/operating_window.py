"""Error and underflow of FP16's gradient against the loss scale, and the window of every parameter below."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MultipleLocator, NullLocator

from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.probe import DEFAULT
from halfscale.analysis.style import FAMILIES, LARGE, MUTED, TEXT_WIDTH, in_inches, key_above, write

INPUTS = ("tables/probe_scales.csv", "tables/probe.csv", "tables/probe_layers.csv")
TITLE = "Operating window of the loss scale"
CAPTION = (
    "What the loss scale makes of FP16's gradient, at the weights of the FP32 reference after so many steps and on the "
    "batch that comes next. Top: error relative to the FP32 gradient; the level lines are BF16's, which needs no scale. "
    "A curve ends at its cross: beyond it an element overflows; one without a cross ends where no higher scale was tried. "
    "Middle: share of elements that are zero in FP16 and not in FP32. Bottom: the operating window of each parameter "
    "after the last of these steps, from the lowest scale down to which its error stays within a tenth of the plateau, "
    "its error at the largest scale at which it is finite, up to that scale; no line where there is no window, as where a "
    "gradient is rounding noise. No line goes beyond the scales that were tried. Parameters in the order of the "
    "model, its input at the top. Dotted: 65536, where GradScaler starts by default."
)

HEAD, ERROR, FLUSHED, LAYERS, GAP, FOOT, LEFT, BETWEEN = 0.46, 1.2, 0.7, 1.0, 0.1, 0.5, 0.62, 0.3
"""Inches: a workload's name, the three panels below one another, between them, below them, left of them, and between
workloads."""

SHADES, BF16 = ("#0a2a66", "#6fa0f5"), FAMILIES["bf16"][1]
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
"""Of the first, the second and the third step that is probed, and so on."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    scales, windows, layers = (read_table(folder, name) for name in ("probe_scales", "probe", "probe_layers"))
    workloads = scales["workload"].unique().tolist()
    block = HEAD + ERROR + FLUSHED + LAYERS + 2 * GAP + FOOT
    figure = Figure(figsize=(TEXT_WIDTH, block * -(-len(workloads) // 2)))
    width = (TEXT_WIDTH - 2 * LEFT - BETWEEN / 2 - 0.1) / 2
    for index, workload in enumerate(workloads):
        row, column = divmod(index, 2)
        left, top = LEFT + column * (LEFT + width + BETWEEN / 2), figure.get_figheight() - row * block
        write(figure, left - LEFT + 0.05, top - 0.05, workload, va="top", size=LARGE, weight="bold")
        panels: list[Axes] = []
        top -= HEAD
        for height in (ERROR, FLUSHED, LAYERS):
            top -= height
            place = in_inches(figure, (left, top, width, height))
            panels.append(figure.add_axes(place, sharex=panels[0] if panels else None))
            top -= GAP
        own = [table[table["workload"] == workload] for table in (scales, windows, layers)]
        draw_workload(panels, *own, first=column == 0)
    return figure


def draw_workload(
    panels: list[Axes], scales: pd.DataFrame, windows: pd.DataFrame, layers: pd.DataFrame, *, first: bool
) -> None:
    """Draw the three panels of one workload."""
    error, flushed, window = panels
    marks = []
    for look, row in zip(looks(len(windows)), windows.to_dict("records"), strict=True):
        curve = scales[(scales["step"] == row["step"]) & (scales["precision"] == "fp16")]
        finite = curve[~curve["overflow"].astype(bool)]
        error.plot(finite["exponent"], finite["error"], **look)
        if len(finite) and finite["exponent"].iloc[-1] < curve["exponent"].max():
            error.plot(finite["exponent"].iloc[-1], finite["error"].iloc[-1], "x", color=look["color"], markersize=4)
        if pd.notna(row["bf16_error"]):
            error.axhline(row["bf16_error"], color=BF16, linewidth=0.8, linestyle=look["linestyle"])
        flushed.plot(finite["exponent"], 100 * finite["flushed"], **look)
        marks.append(Line2D([], [], **look, label=f"{row['step']} steps"))
    draw_layers(window, layers[layers["step"] == windows["step"].iloc[-1]].reset_index(drop=True), look["color"])
    if any((np.asarray(line.get_ydata(), dtype=float) > 0).any() for line in error.lines):
        error.set_yscale("log")  # which no axis of zeros alone can be, nor one of nothing
    error.yaxis.set_minor_locator(NullLocator())
    flushed.set_ylim(bottom=0)
    for ax in panels:
        ax.axvline(DEFAULT, color=MUTED, linewidth=0.8, linestyle=":")
        ax.tick_params(labelbottom=ax is window)
    window.xaxis.set_major_locator(MultipleLocator(8))
    window.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"$2^{{{value:.0f}}}$"))
    window.set_xlabel("loss scale")
    if first:
        for ax, text in ((error, "relative error"), (flushed, "flushed (%)"), (window, "parameters")):
            ax.set_ylabel(text)
    key_above(error, [*marks, Line2D([], [], color=BF16, linewidth=0.8, label="BF16")])


def looks(count: int) -> list[dict[str, Any]]:
    """Return how the curves of so many steps look: from dark to light, and each with a line of its own."""
    shades = sns.blend_palette(SHADES, count).as_hex()
    return [{"color": shade, "linestyle": LINES[index % len(LINES)]} for index, shade in enumerate(shades)]


def draw_layers(ax: Axes, layers: pd.DataFrame, colour: str) -> None:
    """Draw the window of each parameter, the model's first at the top."""
    width = min(1.0, 70 / max(1, len(layers)))  # points, so that neighbours stay apart
    ax.hlines(layers.index, layers["low"].astype(float), layers["high"].astype(float), color=colour, linewidth=width)
    ax.set_ylim(max(1, len(layers)) - 0.5, -0.5)
    ax.set_yticks([])
