"""Steps skipped in calibration: what the window of the initial weights predicts, beside what each run did."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from halfscale.analysis.figures._inputs import choose_arms, read_arms, read_table
from halfscale.analysis.style import MUTED, add_to_caption, key_above, no_data, rows_of_arms, side_heading, side_note

INPUTS = ("tables/predicted_skips.csv", "tables/runs.csv", "plan.json")
TITLE = "Calibration skips, predicted and observed"
CAPTION = (
    "Steps that a dynamic scaler skipped until its scale had come down to where it can be used. Dots: runs, one a seed. "
    "Ring: predicted from the initial scale, the backoff factor and the upper end of the operating window at the initial "
    "weights of one seed. At the right, predicted and observed. Arms with FP32 islands, with scales of single layers or "
    "with injected faults have other gradients than those probed, and are left out."
)

MOST_ARMS = 24
"""Arms that the figure has room for on a page."""

PREDICTED_AT, OBSERVED_AT = 8, 62
"""Columns at the right: their distance from the axes, points."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    arms, runs = read_arms(folder), read_table(folder, "runs")
    table = read_table(folder, "predicted_skips")
    table = table[table["predicted_skips"].notna()]
    names = {
        str(workload): [arm.name for arm in arms.in_order(own["arm"])]
        for workload, own in table.groupby("workload", sort=False)
    }
    if not names:
        figure, panels = rows_of_arms({arms.workloads[0]: []}, arms.colours, right=0.1, sharex=True)
        no_data(panels[arms.workloads[0]])
        return figure
    shown = choose_arms(arms, runs, names, MOST_ARMS)
    figure, panels = rows_of_arms(shown.arms, arms.colours, right=1.7, sharex=True)
    for workload, ax in panels.items():
        for row, arm in enumerate(shown.arms[workload]):
            own = table[(table["workload"] == workload) & (table["arm"] == arm)]
            predicted, observed = int(own["predicted_skips"].iloc[0]), sorted(own["skips"])
            ax.plot(predicted, row, "o", markersize=8, mfc="none", mec=arms.colours[arm], mew=1.0)
            ax.plot(observed, [row] * len(own), ".", color=arms.colours[arm], markersize=5, alpha=0.7)
            side_note(ax, row, PREDICTED_AT, str(predicted))
            side_note(ax, row, OBSERVED_AT, ", ".join(f"{count:.0f}" for count in observed), MUTED)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.set_xlim(left=-0.6)
        ax.set_xlabel("steps skipped in calibration")
        side_heading(ax, PREDICTED_AT, "predicted")
        side_heading(ax, OBSERVED_AT, "observed")
    add_to_caption(figure, shown.sentence("tables/predicted_skips.csv has all"))
    marks = [
        Line2D([], [], marker="o", markersize=7, mfc="none", mec=MUTED, linestyle="", label="predicted"),
        Line2D([], [], marker=".", markersize=6, color=MUTED, linestyle="", label="run"),
    ]
    key_above(next(iter(panels.values())), marks)
    return figure
