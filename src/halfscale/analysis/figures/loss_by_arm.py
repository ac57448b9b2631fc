"""Training loss against step, each arm against the reference, with block bands and the known floor."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from halfscale.analysis.figures._inputs import diverged_by_arm, read_arms, read_table, read_traces
from halfscale.analysis.style import INK, LARGE, MUTED, SMALL, no_data, note, small_multiples, wrap

INPUTS = ("plan.json", "tables/runs.csv", "traces.parquet")
TITLE = "Training loss by arm"
CAPTION = (
    "Training loss of each arm (colour) over that of the FP32 reference (grey): mean over the seeds whose run "
    "completed, and band from the lowest to the highest of them, both of the loss smoothed by a centred rolling mean "
    "whose window stands beside the workload's name. Runs that diverged are left out of mean and band, counted in the "
    "panel, and drawn one by one as dashed lines that end in a cross. Dotted line: entropy of the data's source, the "
    "mean loss of the oracle that knows it, below which no model can stay. All panels of a workload share their axes."
)

GREY = "#9a9a9a"
"""The reference behind every arm."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms = read_arms(folder)
    colours = arms.colours
    runs = read_table(folder, "runs")
    diverged = diverged_by_arm(runs)
    bad = set(runs.loc[runs["status"] == "diverged", ["workload", "arm", "seed"]].itertuples(index=False, name=None))
    traces = read_traces(folder, ["step", "loss", "oracle_loss"])
    members = {workload: arms.in_order(rows["arm"]) for workload, rows in traces.groupby("workload")}
    shown = {
        workload: [arm.name for arm in members.get(workload, []) if arm.name != arms.reference] or [arms.reference]
        for workload in arms.workloads
    }
    figure, blocks = small_multiples({workload: len(names) for workload, names in shown.items()}, 4, 1.2)
    for workload, (block, panels) in blocks.items():
        rows = traces[traces["workload"] == workload]
        window = smoothing_window(int(rows["step"].max()) + 1 if len(rows) else 1)
        losses = {str(arm): smooth(run, window) for arm, run in rows.groupby("arm")}
        whole = {
            arm: table[[seed for seed in table if (workload, arm, seed) not in bad]] for arm, table in losses.items()
        }
        reference = whole.get(arms.reference, pd.DataFrame())
        floor = rows["oracle_loss"].mean()
        for ax, name in zip(panels, shown[workload], strict=True):
            draw_band(ax, reference, GREY, width=2.2)
            draw_band(ax, whole.get(name, pd.DataFrame()), colours[name], width=0.9)
            losers = losses.get(name, pd.DataFrame()).drop(columns=whole.get(name, pd.DataFrame()).columns)
            draw_diverged(ax, losers, colours[name])
            ax.set_title(wrap(name, 20), loc="left", color=colours[name], weight="bold")
            count, total = diverged.get((workload, name), (0, 0))
            if count:
                note(ax, 0.97, 0.95, f"diverged: {count} of {total}", ha="right", va="top")
            if losses.get(name, pd.DataFrame()).isna().all(axis=None):
                no_data(ax)
            if np.isfinite(floor):
                ax.axhline(floor, color=INK, linewidth=0.9, linestyle=":")
        set_limits(panels[0], reference, [table for arm, table in whole.items() if arm in shown[workload]], floor)
        seeds = rows["seed"].nunique()
        block.suptitle(workload, x=0.01, ha="left", size=LARGE, weight="bold")
        block.text(
            0.99,
            0.985,
            f"mean and range of {seeds} seeds; rolling mean of {window} steps",
            ha="right",
            va="top",
            size=SMALL,
            color=MUTED,
        )
        block.supxlabel("optimizer step")
        block.supylabel("training loss (nats)")
        label_first(panels[0], reference, arms.reference, floor)
    return figure


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
    """Draw each diverged run by itself, a cross at its last finite loss."""
    for seed in losses:
        run = losses[seed].dropna()
        if len(run):
            ax.plot(run.index, run, color=colour, linewidth=0.7, linestyle=(0, (3, 1.5)))
            ax.plot(run.index[-1], run.iloc[-1], marker="x", color=INK, markersize=4, zorder=4)


def set_limits(ax: Axes, reference: pd.DataFrame, others: list[pd.DataFrame], floor: float) -> None:
    """Fit the shared axes to the runs that completed; one that blows up does not flatten all others."""
    base = finite_values([reference])
    values = finite_values([reference, *others])
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
            "source entropy (oracle)",
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
