"""One look for every figure: size, type, the colour of each arm and of each cause of a skipped step, shared layouts."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from halfscale.study.arm import Arm

TEXT_WIDTH = 6.5
"""Width of the paper's text, inches; every figure is drawn at the size it is printed."""

SMALL, NORMAL, LARGE = 7.0, 7.5, 9.0
"""Type sizes, points: ticks and notes; axis labels and arm names; workload names."""

LINE = 0.12
"""Height of a line of an arm's name, inches."""

ROW_NAME = 30
"""Characters of an arm's name beside its row before it is broken."""

INK, MUTED, FAINT = "#1f1f1f", "#5c5c5c", "#d9d9d9"
"""Text and axes; notes; grid lines."""

RC: dict[str, Any] = {
    # DejaVu Sans ships with matplotlib: the bytes of a figure do not depend on the machine's own fonts.
    "font.family": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    "font.size": NORMAL,
    "axes.titlesize": NORMAL,
    "axes.labelsize": NORMAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    # Type 42 stays text that can be searched; publishers refuse Type 3.
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.0,
    "lines.solid_capstyle": "butt",
    "figure.dpi": 100,
    "savefig.dpi": 200,
}
"""matplotlib's settings for every figure, laid over its own defaults."""

FAMILIES: dict[str, tuple[str, str]] = {
    "fp32": ("#8a8a8a", "#262626"),
    "tf32": ("#33310a", "#9c8948"),
    "bf16": ("#0d4a42", "#128c6e"),
    "fp16 dynamic": ("#0a3a94", "#4a86f7"),
    "fp16 static": ("#a33200", "#dc6d02"),
    "fp16 none": ("#8a2f86", "#c34abb"),
}
"""Hue says precision, and for FP16 how the loss is scaled; the arms of a family run from the first shade to the last."""

CAUSES: dict[str, tuple[str, str, str]] = {
    "calibration": ("calibration", "#b3b3b3", "v"),
    "growth_probe": ("growth probe", "#f0a000", "o"),
    "sporadic": ("sporadic", "#b5172f", "X"),
}
"""Causes of a skipped step: how it is written, its colour (darker is worse), its marker."""


def family(arm: Arm) -> str:
    """Return the family whose hue an arm takes."""
    return f"fp16 {arm.effective_loss_scaling.kind}" if arm.precision == "fp16" else arm.precision


def arm_colours(arms: Sequence[Arm]) -> dict[str, str]:
    """Return the colour of each arm by name. Give all arms of the plan, so that every figure agrees."""
    families: dict[str, list[str]] = {}
    for arm in arms:
        families.setdefault(family(arm), []).append(arm.name)
    colours: dict[str, str] = {}
    for name, members in families.items():
        colours |= zip(members, sns.blend_palette(FAMILIES[name], len(members)).as_hex(), strict=True)
    return colours


def power_of_two(value: float) -> str:
    """Return a positive number as it is written in a figure: exact powers of two as 2^n, the rest in four digits."""
    mantissa, exponent = math.frexp(value)
    return f"$2^{{{exponent - 1}}}$" if mantissa == 0.5 else f"{value:.4g}"


def signed(value: float, decimals: int) -> str:
    """Return a number with its sign, the minus sign a real one."""
    return f"{round(value, decimals) + 0.0:+.{decimals}f}".replace("-", "−")  # + 0.0 makes a negative zero positive


def wrap(name: str, width: int) -> str:
    """Return a name broken into lines of at most `width` characters: after '_', or '-' where that is not enough."""
    lines = [""]
    for word in re.findall("[^_]*_|[^_]+", name):
        for part in [word] if len(word) <= width else re.findall("[^-]*-|[^-]+", word):
            if lines[-1] and len(lines[-1]) + len(part) > width:
                lines.append("")
            lines[-1] += part
    return "\n".join(lines)


def most_lines(names: Iterable[str], width: int) -> int:
    """Return how many lines the longest of these names takes, at least one."""
    return max((wrap(name, width).count("\n") + 1 for name in names), default=1)


def side_note(ax: Axes, row: float, offset: float, text: str, colour: str = INK) -> None:
    """Write a note at the right of the axes, level with a row; `offset` is its distance from them in points."""
    ax.annotate(
        text,
        (1, row),
        (offset, 0),
        xycoords=ax.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        size=SMALL,
        color=colour,
    )


def side_heading(ax: Axes, offset: float, text: str) -> None:
    """Write the heading of a column of side notes."""
    ax.annotate(
        text, (1, 1), (offset, 3), xycoords="axes fraction", textcoords="offset points", size=SMALL, color=MUTED
    )


def key_above(ax: Axes, marks: Sequence[Artist]) -> None:
    """Say above the axes what the marks mean, in one line that ends where the axes do."""
    ax.legend(
        handles=list(marks),
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=len(marks),
        borderaxespad=0.2,
        handlelength=0.9,
        handleheight=0.8,
        handletextpad=0.4,
        columnspacing=1,
    )


def no_data(ax: Axes) -> None:
    """Say in the middle of the axes that there is nothing to draw."""
    note(ax, 0.5, 0.5, "no data", ha="center", va="center")


def note(ax: Axes, x: float, y: float, text: str, **place: Any) -> None:
    """Write a small note, readable over curves, at a place given in fractions of the axes."""
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}
    ax.text(x, y, text, transform=ax.transAxes, size=SMALL, color=MUTED, bbox=box, zorder=5, **place)


@dataclass(frozen=True)
class Block:
    """The panels of one workload, which share both axes."""

    panels: list[Axes]
    top: float
    """Upper edge, inches above the figure's lower edge."""


def add_to_caption(figure: Figure, *sentences: str) -> None:
    """Have the figure's own caption go on with these sentences; those that are empty are left out."""
    figure.set_label(" ".join(filter(None, sentences)))


def small_multiples(
    counts: Mapping[str, int],
    columns: int,
    title_lines: int,
    ylabel: str,
    heading: Callable[[str], str] = str,
    xlabel: str = "optimizer step",
) -> tuple[Figure, dict[str, Block]]:
    """Return a figure of one block of panels a workload, all panels of one size.

    Places are plain sums of inches. matplotlib's constrained layout solves for them with a solver whose last bit
    depends on memory addresses, and then no two builds are sure to be the same bytes.

    Args:
        counts: panels by workload, each at least one.
        columns: panels side by side.
        title_lines: lines of type above a panel.
        ylabel: what the panels show, with its unit.
        heading: what stands above the panels of a workload.
        xlabel: what they are over, with its unit.
    """
    head, title, height, foot, left, gap = 0.16, LINE * title_lines + 0.12, 0.9, 0.48, 0.54, 0.14
    width = (TEXT_WIDTH - left - gap * columns) / columns
    rows = {workload: math.ceil(count / columns) for workload, count in counts.items()}
    top = sum(head + count * (title + height) + foot for count in rows.values())
    figure = Figure(figsize=(TEXT_WIDTH, top))
    blocks = {}
    for workload, count in counts.items():
        panels: list[Axes] = []
        for index in range(count):
            row, column = divmod(index, columns)
            place = (left + column * (width + gap), top - head - (row + 1) * (title + height), width, height)
            first = panels[0] if panels else None
            ax = figure.add_axes(in_inches(figure, place), sharex=first, sharey=first)
            ax.tick_params(labelleft=column == 0, labelbottom=index + columns >= count)
            panels.append(ax)
        bottom = top - head - rows[workload] * (title + height)
        write(figure, 0.05, top - 0.03, heading(workload), va="top", size=LARGE, weight="bold")
        write(figure, (left + TEXT_WIDTH - gap) / 2, bottom - 0.36, xlabel, ha="center")
        write(figure, 0.04, (top - head - title + bottom) / 2, ylabel, rotation=90, va="center")
        blocks[workload] = Block(panels, top)
        top = bottom - foot
    return figure, blocks


def in_inches(figure: Figure, place: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """Return left, bottom, width and height, given in inches, as the figure's fractions."""
    width, height = figure.get_size_inches()
    return (place[0] / width, place[1] / height, place[2] / width, place[3] / height)


def write(figure: Figure, x: float, y: float, text: str, **look: Any) -> None:
    """Write text at a place given in inches from the figure's lower left corner."""
    width, height = figure.get_size_inches()
    figure.text(x / width, y / height, text, **look)


def block_note(block: Block, text: str) -> None:
    """Write a note at the right of a block, level with the workload's name."""
    figure = block.panels[0].get_figure(root=True)
    assert figure is not None
    write(figure, TEXT_WIDTH - 0.05, block.top - 0.05, text, ha="right", va="top", size=SMALL, color=MUTED)


def rows_of_arms(
    names: Mapping[str, Sequence[str]],
    colours: Mapping[str, str],
    right: float,
    sharex: bool,
    heading: Callable[[str], str] = str,
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure of one panel a workload, one below the other, with a row for each of its arms.

    Args:
        names: arms by workload; a workload without any gets an empty row.
        colours: of the arms.
        right: inches to keep free at the right.
        sharex: whether the workloads share one x axis.
        heading: what stands above the rows of a workload.
    """
    head, foot = 0.28, 0.42
    row = 0.08 + LINE * most_lines(chain(*names.values()), ROW_NAME)
    heights = [max(1, len(arms)) * row for arms in names.values()]
    top = sum(head + height + foot for height in heights)
    figure = Figure(figsize=(TEXT_WIDTH, top))
    panels: dict[str, Axes] = {}
    for workload, arms in names.items():
        ax = figure.add_subplot(sharex=next(iter(panels.values())) if sharex and panels else None)
        ax.set_ylim(max(1, len(arms)) - 0.5, -0.5)  # the first arm on top
        ax.set_yticks(range(len(arms)), [wrap(arm, ROW_NAME) for arm in arms])
        for label, arm in zip(ax.get_yticklabels(), arms, strict=True):
            label.set_color(colours[arm])
        ax.grid(visible=False, axis="y")
        ax.tick_params(axis="y", length=0)
        panels[workload] = ax
    renderer = FigureCanvasAgg(figure).get_renderer()  # else each label is measured on a canvas of its own: gigabytes
    widths = [label.get_window_extent(renderer).width for ax in panels.values() for label in ax.get_yticklabels()]
    left = 0.15 + max(widths, default=0.0) / figure.dpi
    for (workload, ax), height in zip(panels.items(), heights, strict=True):
        write(figure, 0.05, top - 0.05, heading(workload), va="top", size=LARGE, weight="bold")
        top -= head + height
        ax.set_position(in_inches(figure, (left, top, TEXT_WIDTH - left - right, height)))
        top -= foot
    return figure, panels
