"""Dtypes of a model's outputs in forward order, one strip a precision and device, and of single operations below."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from halfscale.analysis.output_dtypes import CELLS, MODEL, Tables, read_output_dtypes_tables
from halfscale.analysis.style import (
    FAINT,
    FAMILIES,
    INK,
    LARGE,
    MUTED,
    SMALL,
    TEXT_WIDTH,
    in_inches,
    no_data,
    side_heading,
    side_note,
    write,
)

INPUTS = ("tables/output_dtypes.csv", "tables/output_dtypes_passes.csv", "tables/autocast_operations.csv")
TITLE = "Output dtypes under autocast"
CAPTION = (
    "What autocast makes of every output of a training step's forward pass, in forward order. A strip is one precision on "
    "one device; CUDA's are predicted by fake tensors where it says so. At the right, how many outputs are 16-bit. Below, "
    "where the two devices differ, and which module or function an output is of, with their number. Last, single operations "
    "whose operands are 16-bit already, as after a convolution or a matrix product; red names are those on which CPU and "
    "CUDA differ. A strip that is empty could be neither measured nor predicted."
)

ROW, HEAD, FOOT, GAP, KEY, NAMES = 0.135, 0.24, 0.36, 0.06, 0.24, 0.85
"""Inches: a row, a workload's name, what stands below its rows, between strips and kinds, the key, and the names of operations."""

MOST_KINDS = 12
"""Rows of kinds; where there are more, the rarest share one."""

MOST_APART = 80
"""Cells of a row that have gaps between them; more would be stripes."""

MOST_PARTS = 12
"""Parts of a model that are told apart."""

DTYPES = {
    "float32": ("FP32", FAMILIES["fp32"][0]),
    "bfloat16": ("BF16", FAMILIES["bf16"][1]),
    "float16": ("FP16", FAMILIES["fp16 dynamic"][1]),
}
"""How a dtype is written, and its colour."""

OTHER, DIFFERS = ("another, or several", "#e6d9f2"), "#b5172f"

SHORT = {"scaled_dot_product_attention": "attention"}
"""Names that are too long for their place."""

LETTER = 0.06
"""Width of a letter of the smallest type, inches, at most."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    tables = read_output_dtypes_tables(folder)
    workloads = list(dict.fromkeys(tables.passes["workload"]))
    kinds = {name: kinds_of(tables.outputs[tables.outputs["workload"] == name]) for name in workloads}
    rows = {name: strips_of(tables.passes, name) for name in workloads}
    heights = {name: (len(rows[name]) + 1 + max(1, len(kinds[name]))) * ROW + GAP for name in workloads}
    operations = HEAD + len(CELLS) * ROW + NAMES
    top = KEY + sum(HEAD + height + FOOT for height in heights.values()) + operations
    figure = Figure(figsize=(TEXT_WIDTH, top))
    names = [name for strips in rows.values() for name, *_ in strips]
    names += [*operation_strips(tables.operations), *(kind for several in kinds.values() for kind in several)]
    left = 0.15 + widest(figure, names)
    most = int(tables.passes["outputs"].max())
    width = TEXT_WIDTH - left - 0.15 - widest(figure, [f"{most} of {most}"])
    key(figure)
    top -= KEY
    for name in workloads:
        write(figure, 0.05, top - 0.02, name, va="top", size=LARGE, weight="bold")
        top -= HEAD
        strips = (len(rows[name]) + 1) * ROW
        upper = figure.add_axes(in_inches(figure, (left, top - strips, width, strips)))
        lower = figure.add_axes(
            in_inches(figure, (left, top - heights[name], width, heights[name] - strips - GAP)), sharex=upper
        )
        own = tables.outputs[tables.outputs["workload"] == name]
        draw_strips(upper, own, rows[name])
        draw_kinds(lower, own, kinds[name])
        mark_stages(lower, own, width)
        top -= heights[name] + FOOT
    write(figure, 0.05, top - 0.02, "single operations on 16-bit operands", va="top", size=LARGE, weight="bold")
    place = (left, top - HEAD - len(CELLS) * ROW, width, len(CELLS) * ROW)
    draw_operations(figure.add_axes(in_inches(figure, place)), tables)
    return figure


def kinds_of(outputs: pd.DataFrame) -> list[str]:
    """Return the kinds of a workload's outputs in forward order; where they are too many, the most frequent."""
    each = outputs.sort_values("order").drop_duplicates("order")
    kinds = each["kind"].drop_duplicates().tolist()
    if len(kinds) <= MOST_KINDS:
        return kinds
    frequent = each["kind"].value_counts(sort=False).sort_values(ascending=False, kind="stable").index[: MOST_KINDS - 1]
    return [*(kind for kind in kinds if kind in frequent), "all others"]


def strips_of(passes: pd.DataFrame, workload: str) -> list[tuple[str, str, str]]:
    """Return label, precision and device of a workload's strips, the devices of a precision side by side."""
    own = passes[passes["workload"] == workload]
    order = dict.fromkeys(own["precision"])
    rows = [row for precision in order for row in own[own["precision"] == precision].to_dict("records")]
    return [
        (strip_name(row["precision"], row["device"], row["how"] == "predicted"), row["precision"], row["device"])
        for row in rows
    ]


def widest(figure: Figure, names: Sequence[str]) -> float:
    """Return the width of the widest of these row names, inches."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    text = [figure.text(0, 0, shown(name), size=SMALL) for name in names]
    width = max((each.get_window_extent(renderer).width for each in text), default=0.0) / figure.dpi
    for each in text:
        each.remove()
    return width


def shown(name: str) -> str:
    """Return a name as a row or a column has it."""
    short = SHORT.get(name, name)
    return short if len(short) <= 24 else f"{short[:23]}…"


def key(figure: Figure) -> None:
    """Say above all which colour is which dtype."""
    looks = [*DTYPES.values(), OTHER]
    marks = [Patch(facecolor=colour, label=label) for label, colour in looks]
    marks.append(Patch(facecolor=DIFFERS, label="CPU and CUDA differ"))
    figure.legend(
        handles=marks, loc="upper right", ncols=len(marks), handlelength=0.9, handletextpad=0.4, columnspacing=0.9
    )


def code(dtype: str) -> int:
    """Return the number of a dtype's colour, from 1."""
    return [*DTYPES].index(dtype) + 1 if dtype in DTYPES else len(DTYPES) + 1


def cells(ax: Axes, codes: np.ndarray, colours: Sequence[str]) -> None:
    """Draw rows of coloured cells; where the code is 0 there is none, 1 is the first colour."""
    count = max(1, codes.shape[1])
    ax.pcolormesh(
        np.arange(codes.shape[1] + 1),
        np.arange(codes.shape[0] + 1),
        np.ma.masked_equal(codes, 0),
        cmap=ListedColormap(colours),
        vmin=1,
        vmax=max(2, len(colours)),
        edgecolors="face",
        linewidth=0.1,
    )
    ax.hlines(np.arange(1, codes.shape[0]), 0, count, color="white", linewidth=0.8)
    if count <= MOST_APART:
        ax.vlines(np.arange(1, count), 0, codes.shape[0], color="white", linewidth=0.8)
    ax.set_ylim(codes.shape[0], 0)
    ax.set_xlim(0, count)
    ax.grid(visible=False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def draw_strips(ax: Axes, outputs: pd.DataFrame, rows: Sequence[tuple[str, str, str]]) -> None:
    """Draw a strip for each precision and device, and where the devices differ."""
    count = int(outputs["order"].max()) + 1 if len(outputs) else 0
    codes = np.zeros((len(rows) + 1, count))
    for row, (_, precision, device) in enumerate(rows):
        own = outputs[(outputs["precision"] == precision) & (outputs["device"] == device)]
        codes[row, own["order"]] = [code(dtype) for dtype in own["dtype"]]
    differ = outputs.loc[outputs["differs"].fillna(False).astype(bool), "order"]
    codes[len(rows), differ] = len(DTYPES) + 2
    cells(ax, codes, [colour for _, colour in [*DTYPES.values(), OTHER]] + [DIFFERS])
    ax.set_yticks(np.arange(len(rows) + 1) + 0.5, [*(name for name, *_ in rows), "differ"])
    ax.tick_params(labelbottom=False)
    for row in range(len(rows)):
        if codes[row].any():
            side_note(ax, row + 0.5, 6, f"{int(np.isin(codes[row], [2, 3]).sum())} of {int((codes[row] > 0).sum())}")
    side_note(
        ax, len(rows) + 0.5, 6, f"{differ.nunique()} of {count}" if outputs["differs"].notna().any() else "--", MUTED
    )
    side_heading(ax, 6, "16-bit")


def strip_name(precision: str, device: str, predicted: bool) -> str:
    """Return what a strip is called."""
    return f"{precision.upper()} {device.upper()}{', predicted' if predicted else ''}"


def operation_strips(operations: pd.DataFrame) -> list[str]:
    """Return what the strips of single operations are called."""
    predicted = bool((operations["cuda_how"] == "predicted").any())
    return [strip_name(precision, device, predicted and device == "cuda") for precision, device in CELLS]


def draw_kinds(ax: Axes, outputs: pd.DataFrame, kinds: Sequence[str]) -> None:
    """Draw a row for each kind, with a mark where an output is of it."""
    if not kinds:
        no_data(ax)
        ax.set_yticks([])
        return
    each = outputs.drop_duplicates("order")
    codes = np.zeros((len(kinds), int(each["order"].max()) + 1))
    rows = [kinds.index(kind) if kind in kinds else len(kinds) - 1 for kind in each["kind"]]
    codes[rows, each["order"]] = 1
    cells(ax, codes, [MUTED])
    ax.set_yticks(np.arange(len(kinds)) + 0.5, [shown(kind) for kind in kinds])
    ax.hlines(np.arange(1, len(kinds)), 0, codes.shape[1], color=FAINT, linewidth=0.4)
    for row in range(len(kinds)):
        side_note(ax, row + 0.5, 6, str(int(codes[row].sum())), MUTED)


def mark_stages(ax: Axes, outputs: pd.DataFrame, width: float) -> None:
    """Name the parts of the model below their outputs, where there is room for the name."""
    if outputs.empty:
        ax.set_xticks([])
        return
    each = outputs.sort_values("order").drop_duplicates("order")
    count = len(each)
    stages = stages_of(each["module"].tolist())
    starts = [index for index, name in enumerate(stages) if index == 0 or name != stages[index - 1]]
    ticks, names, edges = [], [], set()
    for start, end in zip(starts, [*starts[1:], len(stages)], strict=True):
        if stages[start] and len(stages[start]) * LETTER <= (end - start) / count * width:
            ticks.append((start + end) / 2)
            names.append(stages[start])
            edges |= {start, end}
    ax.set_xticks(ticks, names)
    ax.vlines(sorted(edges), 0, 1, transform=ax.get_xaxis_transform(), color=FAINT, linewidth=0.6)
    ax.set_xlabel("part of the model, in forward order")


def stages_of(modules: Sequence[str]) -> list[str]:
    """Return the part of the model that each module belongs to: its first name, with the number of a list's entry where
    that makes no more parts than can be told apart."""
    parts = [["", ""] if module == MODEL else [*module.split("."), ""] for module in modules]
    fine = [f"{first}.{second}" if second.isdigit() else first for first, second, *_ in parts]
    return fine if len(set(fine)) <= MOST_PARTS else [first for first, *_ in parts]


def draw_operations(ax: Axes, tables: Tables) -> None:
    """Draw what the devices make of single operations."""
    table = tables.operations
    names = list(dict.fromkeys(table["operation"]))
    if not names:
        no_data(ax)
        ax.set_axis_off()
        return
    codes = np.zeros((len(CELLS), len(names)))
    for row, (precision, device) in enumerate(CELLS):
        own = table[(table["precision"] == precision) & table[device].notna()]
        codes[row, [names.index(name) for name in own["operation"]]] = [code(dtype) for dtype in own[device]]
    cells(ax, codes, [colour for _, colour in [*DTYPES.values(), OTHER]])
    ax.set_yticks(np.arange(len(CELLS)) + 0.5, operation_strips(table))
    ax.set_xticks(np.arange(len(names)) + 0.5, [shown(name) for name in names], rotation=90)
    differ = set(table.loc[table["differs"].fillna(False).astype(bool), "operation"])
    for label, name in zip(ax.get_xticklabels(), names, strict=True):
        label.set_color(DIFFERS if name in differ else INK)
