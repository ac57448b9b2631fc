"""Loss scale against step for every arm that has one, skipped steps marked by cause."""

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from halfscale.analysis.figures._inputs import choose_arms, diverged_runs, read_arms, read_table, read_traces
from halfscale.analysis.style import (
    CAUSES,
    INK,
    LARGE,
    MUTED,
    NORMAL,
    SMALL,
    add_to_caption,
    most_lines,
    no_data,
    power_of_two,
    small_multiples,
    wrap,
)
from halfscale.study.arm import Arm, StaticLossScaling

INPUTS = ("plan.json", "tables/runs.csv", "traces.parquet")
TITLE = "Loss-scale trajectories"
CAPTION = (
    "Loss scale in force at each optimizer step: a thin line a seed (block); runs that agree lie on top of each other "
    "and look darker. Each arm with a dynamic scale has a panel, and under its name its initial scale, its growth "
    "factor and the clean steps before a growth, and its backoff factor; these panels share their axes within a "
    "workload. Arms with a static scale share one panel, which does not share that axis. Marks are steps that were "
    "skipped because the gradients overflowed, told apart by cause: calibration (before the "
    "scale has settled), growth probe (the step right after a growth), and sporadic (all others). A cross stands at the "
    "first bad step of a run that diverged. Arms with no loss scaling are not shown."
)


MOST_ARMS = 18
"""Arms that the figure has room for; with more, its type would be too small on a page."""

NAME_WIDTH = 26
"""Characters of an arm's name above its panel before it is broken."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms = read_arms(folder)
    colours = arms.colours
    runs = read_table(folder, "runs")
    diverged = diverged_runs(runs)
    scaled = runs[runs["init_scale"].notna()]
    shown = choose_arms(
        arms,
        runs,
        {
            workload: [arm.name for arm in arms.in_order(scaled.loc[scaled["workload"] == workload, "arm"])]
            for workload in arms.workloads
        },
        MOST_ARMS,
    )
    traces = read_traces(folder, ["step", "scale", "skip_cause"], chain(*shown.arms.values()))
    traces = traces[traces["scale"].notna()].assign(exponent=lambda rows: log2(rows["scale"]))
    dynamic: dict[str, list[Arm]] = {}
    static: dict[str, list[Arm]] = {}
    for workload, names in shown.arms.items():
        present = arms.in_order(names)
        dynamic[workload] = [arm for arm in present if arm.effective_loss_scaling.kind == "dynamic"]
        static[workload] = [arm for arm in present if arm.effective_loss_scaling.kind == "static"]
    figure, blocks = small_multiples(
        {name: max(1, len(dynamic[name]) + bool(static[name])) for name in arms.workloads},
        columns=3,
        title_lines=1 + most_lines([arm.name for members in dynamic.values() for arm in members], NAME_WIDTH),
        ylabel="loss scale",
        heading=shown.heading,
    )
    add_to_caption(figure, shown.sentence())
    for workload, block in blocks.items():
        panels = block.panels
        rows = traces[traces["workload"] == workload]
        if not len(rows):
            no_data(panels[0])
            continue
        for ax, arm in zip(panels, dynamic[workload], strict=False):
            draw_arm(ax, rows[rows["arm"] == arm.name], colours[arm.name], diverged)
            head(ax, wrap(arm.name, NAME_WIDTH), settings(arm), colours[arm.name])
            ax.tick_params(axis="y", labelsize=LARGE)  # so that the exponents can be read
        panels[0].xaxis.set_major_locator(MaxNLocator(5, integer=True))
        set_scale_axis(panels[0], rows.loc[rows["arm"].isin([arm.name for arm in dynamic[workload]]), "exponent"])
        if static[workload]:
            ax = panels[-1] if not dynamic[workload] else with_own_scale(figure, panels[-1])
            for arm in static[workload]:
                draw_arm(ax, rows[rows["arm"] == arm.name], colours[arm.name], diverged)
                name_line(ax, arm, colours[arm.name])
            head(ax, "static scales", "on an axis of their own", INK)
            set_scale_axis(ax, rows.loc[rows["arm"].isin([arm.name for arm in static[workload]]), "exponent"])
            low, high = ax.get_ylim()
            ax.set_ylim(low, high + 0.12 * (high - low))  # room for the name above the uppermost line
            ax.set_yticks([])  # each line states its scale; ticks would be read with the neighbour's labels
            ax.spines["left"].set_visible(False)
    add_key(figure)
    return figure


def log2(scale: pd.Series) -> pd.Series:
    """Return log2 of the scales, NaN where one is zero."""
    return scale.astype(float).where(scale > 0).map(np.log2)


def draw_arm(ax: Axes, rows: pd.DataFrame, colour: str, diverged: dict[tuple[str, str, int], int]) -> None:
    """Draw one arm: its runs as steps, its skipped steps by cause, a cross where a run diverged."""
    if not rows["exponent"].notna().any():
        no_data(ax)
    for run_of, run in rows.groupby(["workload", "arm", "seed"]):
        ax.step(run["step"], run["exponent"], where="post", color=colour, linewidth=0.8, alpha=0.6)
        if run_of in diverged:
            step = diverged[run_of]
            ax.plot(step, run.set_index("step")["exponent"][step], marker="x", color=INK, markersize=5, zorder=4)
    for cause, (_, shade, marker) in CAUSES.items():
        skips = rows[rows["skip_cause"] == cause]
        ax.scatter(
            skips["step"],
            skips["exponent"],
            s=11,
            marker=marker,
            color=shade,
            edgecolor="white",
            linewidth=0.3,
            zorder=3,
        )


def head(ax: Axes, name: str, below: str, colour: str) -> None:
    """Write a panel's name, and in small type below it what tells it from the others."""
    ax.set_title(name, loc="left", pad=16, color=colour, weight="bold")
    ax.annotate(below, (0, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", color=MUTED, size=NORMAL)


def settings(arm: Arm) -> str:
    """Return an arm's dynamic loss scaling in a few characters."""
    scaling = arm.effective_loss_scaling
    assert scaling.kind == "dynamic"
    return (
        f"from {power_of_two(scaling.init_scale)}, ×{scaling.growth_factor:g} per {scaling.growth_interval}, "
        f"×{scaling.backoff_factor:g}"
    )


def name_line(ax: Axes, arm: Arm, colour: str) -> None:
    """Write a static arm's name on its line."""
    scaling = static_scaling(arm)
    ax.annotate(
        f"{arm.name}: always {power_of_two(scaling.scale)}",
        (0.02, np.log2(scaling.scale)),
        (0, 4),
        xycoords=ax.get_yaxis_transform(),
        textcoords="offset points",
        color=colour,
        size=SMALL,
    )


def static_scaling(arm: Arm) -> StaticLossScaling:
    """Return the scaling of an arm whose scale is static."""
    scaling = arm.effective_loss_scaling
    assert scaling.kind == "static"
    return scaling


def set_scale_axis(ax: Axes, exponents: pd.Series) -> None:
    """Fit the axis of log2(scale) to these values, its ticks written as powers of two."""
    if not exponents.notna().any():
        return
    margin = 1 + 0.08 * (exponents.max() - exponents.min())
    ax.set_ylim(exponents.min() - margin, exponents.max() + 1.5 * margin)
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 4, 5, 8, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda exponent, _: power_of_two(2.0**exponent)))


def with_own_scale(figure: Figure, ax: Axes) -> Axes:
    """Return axes in place of these, which share the steps but not the scale with the rest of the block."""
    own = figure.add_axes(ax.get_position().bounds, sharex=ax)
    ax.remove()
    return own


def add_key(figure: Figure) -> None:
    """Say what the marks mean, beside the first workload's name."""
    marks = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=marker,
            color=shade,
            markeredgecolor="white",
            markeredgewidth=0.3,
            markersize=5,
            label=label,
        )
        for label, shade, marker in CAUSES.values()
    ]
    marks.append(Line2D([], [], linestyle="none", marker="x", color=INK, markersize=4.5, label="run diverged"))
    marks[0].set_label(f"skipped: {marks[0].get_label()}")
    figure.legend(
        handles=marks, loc="upper right", ncols=4, handletextpad=0.1, columnspacing=1, borderpad=0, borderaxespad=0.4
    )
