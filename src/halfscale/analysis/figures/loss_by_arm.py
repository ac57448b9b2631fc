"""Training loss against step, each arm against the reference, with block bands and the known floor."""

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from halfscale.analysis.figures._inputs import (
    Arms,
    choose_arms,
    diverged_by_arm,
    diverged_runs,
    read_arms,
    read_table,
    read_traces,
)
from halfscale.analysis.style import (
    INK,
    SMALL,
    add_to_caption,
    block_note,
    most_lines,
    no_data,
    note,
    small_multiples,
    wrap,
)

INPUTS = ("plan.json", "tables/runs.csv", "traces.parquet")
TITLE = "Training loss by arm"
CAPTION = (
    "Training loss of each arm (colour) over that of the FP32 reference (grey): mean over the seeds whose run "
    "completed, and band from the lowest to the highest of them, both of the loss smoothed by a centred rolling mean "
    "whose window stands beside the workload's name. Runs that diverged are left out of mean and band, counted in the "
    "panel, and drawn one by one as dashed lines that end in a cross, at the latest where they leave the axes. Dotted line: entropy of the data's source where it "
    "is known exactly, the lowest loss that any model can expect. All panels of a workload share their axes."
)

OTHER_RATES = (
    "Behind an arm at another learning rate stands the arm with the reference's settings at that rate, if there is one."
)

MOST_ARMS = 24
"""Arms that the figure has room for; with more, its type would be too small on a page."""

GREY = "#9a9a9a"
"""The reference behind every arm."""

NAME_WIDTH = 20
"""Characters of an arm's name above its panel before it is broken."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms = read_arms(folder)
    colours = arms.colours
    runs = read_table(folder, "runs")
    bad, counts = diverged_runs(runs), diverged_by_arm(runs)
    against = baselines(arms)
    shown = choose_arms(
        arms, runs, {workload: panels_of(arms, runs, workload) for workload in arms.workloads}, MOST_ARMS
    )
    names = list(chain(*shown.arms.values()))
    traces = read_traces(folder, ["step", "loss"], [*names, *(against[name] for name in names), arms.reference])
    figure, blocks = small_multiples(
        {workload: len(panels) for workload, panels in shown.arms.items()},
        columns=4,
        title_lines=most_lines(names, NAME_WIDTH),
        ylabel="training loss (nats)",
        heading=shown.heading,
    )
    rates = {against[name] for name in names} - {arms.reference}
    add_to_caption(figure, shown.sentence(), OTHER_RATES if rates else "")
    for workload, block in blocks.items():
        panels = block.panels
        rows = traces[traces["workload"] == workload]
        window = smoothing_window(int(rows["step"].max()) + 1)
        drawn = [arms.reference, *shown.arms[workload], *(against[name] for name in shown.arms[workload])]
        losses = {name: smooth(rows[rows["arm"] == name], window) for name in dict.fromkeys(drawn)}
        completed = {
            name: table.drop(columns=[seed for seed in table if (workload, name, seed) in bad])
            for name, table in losses.items()
        }
        floor = runs.loc[runs["workload"] == workload, "floor"].mean()
        set_limits(panels[0], completed[arms.reference], list(losses.values()), floor)
        for ax, name in zip(panels, shown.arms[workload], strict=True):
            draw_band(ax, completed[against[name]], GREY, width=2.2)
            draw_band(ax, completed[name], colours[name], width=0.9)
            draw_diverged(ax, losses[name].drop(columns=completed[name].columns), colours[name])
            if np.isfinite(floor):
                ax.axhline(floor, color=INK, linewidth=0.9, linestyle=":")
            if losses[name].isna().all(axis=None):
                no_data(ax)
            diverged, total = counts[workload, name]
            if diverged:
                note(ax, 0.97, 0.4, f"diverged: {diverged} of {total}", ha="right", va="center")
            ax.set_title(wrap(name, NAME_WIDTH), loc="left", color=colours[name], weight="bold")
        label_first(panels[0], completed[arms.reference], arms.reference, floor)
        block_note(block, f"mean and range of {seeds_of(rows)}; {smoothing(window)}")
    return figure


def panels_of(arms: Arms, runs: pd.DataFrame, workload: str) -> list[str]:
    """Return the arms that get a panel: all but the reference, unless there is no other."""
    names = [arm.name for arm in arms.in_order(runs.loc[runs["workload"] == workload, "arm"])]
    return [name for name in names if name != arms.reference] or names


def baselines(arms: Arms) -> dict[str, str]:
    """Return which arm is drawn in grey behind each: what it is compared with, behind that the reference."""
    return {arm: arms.reference if arm == other else other for arm, other in arms.references.items()}


def smoothing_window(steps: int) -> int:
    """Return the rolling mean's window: a twentieth of the steps, odd so that it has a centre."""
    return steps // 20 | 1


def smooth(rows: pd.DataFrame, window: int) -> pd.DataFrame:
    """Return an arm's smoothed losses: step x seed."""
    # pivot_table would drop a run whose losses are all NaN.
    table = rows.set_index(["step", "seed"])["loss"].unstack("seed")  # noqa: PD010
    return table.rolling(window, center=True, min_periods=1).mean().where(table.notna())


def draw_band(ax: Axes, losses: pd.DataFrame, colour: str, width: float) -> None:
    """Draw the mean over seeds and the band of their range."""
    if losses.isna().all(axis=None):
        return
    steps = losses.index.to_numpy()
    ax.fill_between(steps, losses.min(axis=1), losses.max(axis=1), color=colour, alpha=0.25, linewidth=0)
    ax.plot(steps, losses.mean(axis=1), color=colour, linewidth=width)


def draw_diverged(ax: Axes, losses: pd.DataFrame, colour: str) -> None:
    """Draw each diverged run by itself, a cross at its last finite loss, or where it leaves the axes for good."""
    top = ax.get_ylim()[1]
    for seed in losses:
        run = losses[seed].dropna()
        if len(run):
            ax.plot(run.index, run, color=colour, linewidth=0.7, linestyle=(0, (3, 1.5)))
            below = run[run <= top]
            leaves = run.iloc[-1] > top and len(below) > 0
            end = below.index[-1] if leaves else run.index[-1]
            ax.plot(end, min(run[end], top), marker="x", color=INK, markersize=4, zorder=4, clip_on=False)


def smoothing(window: int) -> str:
    """Return how the losses are smoothed, in words of a note."""
    return "not smoothed" if window == 1 else f"rolling mean of {window} steps"


def seeds_of(rows: pd.DataFrame) -> str:
    """Return how many seeds there are, in words of a note."""
    count = rows["seed"].nunique()
    return f"{count} seed{'' if count == 1 else 's'}"


def set_limits(ax: Axes, reference: pd.DataFrame, tables: list[pd.DataFrame], floor: float) -> None:
    """Fit the shared axes to the runs; one that blows up does not flatten all others."""
    base = finite_values([reference])
    values = finite_values(tables)
    if not len(values):
        return
    low = float(np.nanmin([values.min(), floor]))
    top = float(base.max() if len(base) else np.median(values))
    high = min(float(values.max()), top + (top - low))
    margin = 0.06 * (high - low) or 0.5
    ax.set_ylim(low - margin * (3 if np.isfinite(floor) else 1), high + margin)  # the floor's name stands below it
    ax.yaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def finite_values(tables: list[pd.DataFrame]) -> np.ndarray:
    """Return all finite numbers of these tables."""
    values = np.concatenate([table.to_numpy(float).ravel() for table in tables])
    return values[np.isfinite(values)]


def label_first(ax: Axes, reference: pd.DataFrame, name: str, floor: float) -> None:
    """Name the reference and the floor in the first panel, where they are drawn, rather than in a legend."""
    if np.isfinite(floor):
        ax.annotate(
            "source entropy",
            (0, floor),
            (2, -1.5),
            textcoords="offset points",
            va="top",
            size=SMALL,
            color=INK,
            xycoords=ax.get_yaxis_transform(),
        )
    if reference.notna().any(axis=None):
        note(ax, 0.97, 0.95, f"{name} in grey", ha="right", va="top")
