"""Share of runs that have not yet become unstable, by step: Kaplan-Meier curves."""

from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from halfscale.analysis import instability
from halfscale.analysis.figures._inputs import choose_arms, read_arms, read_table
from halfscale.analysis.style import CAUSES as SKIPS
from halfscale.analysis.style import INK, MUTED, add_to_caption, most_lines, note, small_multiples, wrap

INPUTS = ("tables/survival.csv", "tables/runs.csv", "plan.json")
TITLE = "Time to first instability"
CAPTION = (
    "Share of runs that have not yet become unstable, by the number of steps taken: the Kaplan-Meier estimate over the seeds of an "
    "arm. A run becomes unstable at its first step that is skipped outside calibration, whose loss spikes above the rolling "
    "mean before it, or at which the run diverges; the mark says which. A vertical stroke is a run that ended without "
    "becoming unstable, and so is censored there. Arms without an unstable run are not drawn."
)

MOST_ARMS = 24
"""Arms that the figure has room for; with more, its type would be too small on a page."""

NAME_WIDTH = 20
"""Characters of an arm's name above its panel before it is broken."""

LOOKS: dict[str, tuple[str, str, str]] = {
    "growth_probe": SKIPS["growth_probe"],
    "sporadic": SKIPS["sporadic"],
    "spike": ("spike", "#7b3fa0", "^"),
    "divergence": ("divergence", INK, "s"),
}
"""Causes of instability: how it is written, its colour, its marker. A skipped step's are those of every figure."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms, runs, table = read_arms(folder), read_table(folder, "runs"), read_table(folder, "survival")
    events = table[table[list(instability.CAUSES)].sum(axis=1) > 0]
    unstable = {
        workload: [arm.name for arm in arms.in_order(events.loc[events["workload"] == workload, "arm"])]
        for workload in arms.workloads
    }
    shown = choose_arms(arms, runs, unstable, MOST_ARMS)
    figure, blocks = small_multiples(
        {workload: max(1, len(kept)) for workload, kept in shown.arms.items()},
        columns=4,
        title_lines=most_lines(chain(*shown.arms.values()), NAME_WIDTH),
        ylabel="stable runs (%)",
        heading=shown.heading,
        xlabel="steps taken",
    )
    every = table.drop_duplicates(["workload", "arm"])["workload"].value_counts()
    stable = [f"{every[name] - len(unstable[name])} of the {every[name]} arms of {name}" for name in arms.workloads]
    add_to_caption(
        figure, f"No run became unstable in {', '.join(stable)}.", shown.sentence("tables/survival.csv has all")
    )
    for workload, block in blocks.items():
        own = table[table["workload"] == workload]
        if not unstable[workload]:
            note(block.panels[0], 0.5, 0.5, "no run became unstable", ha="center", va="center")
        for ax, name in zip(block.panels, shown.arms[workload], strict=False):
            draw_curve(ax, own[own["arm"] == name], arms.colours[name])
            ax.set_title(wrap(name, NAME_WIDTH), loc="left", color=arms.colours[name], weight="bold")
        ax = block.panels[0]
        ax.set_ylim(-6, 106)
        ax.set_yticks([0, 50, 100])
        ax.set_xlim(0, 1.03 * float(own["steps"].max()))
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    figure.legend(
        handles=key(events),
        loc="upper right",
        ncols=5,
        handletextpad=0.1,
        columnspacing=1,
        borderpad=0,
        borderaxespad=0.4,
    )
    return figure


def draw_curve(ax: Axes, curve: pd.DataFrame, colour: str) -> None:
    """Draw one arm: its curve, a mark at each fall by its gravest cause, and a stroke where runs are censored."""
    steps, share = curve["steps"].to_numpy(float), 100 * curve["surviving"].to_numpy(float)
    ax.plot(steps, share, drawstyle="steps-post", color=colour, linewidth=1.2)
    censored = curve["censored"].to_numpy() > 0
    # Marks that are not clipped would be drawn at the figure's corner where there are none.
    if censored.any():
        ax.plot(steps[censored], share[censored], "|", color=colour, markersize=7, markeredgewidth=1.0, clip_on=False)
    for cause, (_, shade, marker) in LOOKS.items():
        fell = curve[cause].to_numpy() > 0
        if fell.any():
            ax.plot(steps[fell], share[fell], clip_on=False, zorder=4, **mark(shade, marker))


def mark(colour: str, marker: str) -> dict[str, Any]:
    """Return how a cause is marked."""
    return {"linestyle": "none", "marker": marker, "color": colour, "markersize": 4.2, "markeredgewidth": 0}


def key(events: pd.DataFrame) -> list[Line2D]:
    """Return what the marks mean that occur."""
    looks = [look for cause, look in LOOKS.items() if events[cause].sum() > 0]
    causes = [Line2D([], [], label=text, **mark(shade, marker)) for text, shade, marker in looks]
    stroke = Line2D([], [], linestyle="none", marker="|", color=MUTED, markersize=7, label="ended stable")
    return [*causes, stroke]
