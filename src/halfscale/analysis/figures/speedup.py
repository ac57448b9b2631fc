"""Speed-up of each timed variant over FP32 in the same block: a forest of variants."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.figures._variants import variant_colours
from halfscale.analysis.style import MUTED, no_data, rows_of_arms, side_heading, side_note

INPUTS = ("tables/throughput.csv", "tables/throughput_blocks.csv")
TITLE = "Paired speed-up over FP32"
CAPTION = (
    "Time of a training step in FP32 without a scaler over the time of each variant, all else the same, in the same "
    "block. Small dots are blocks, the few beyond the axis not drawn; the large one is their median with its 95 % "
    "bootstrap interval, also given at the right. Beyond 1 the variant is faster. A format for which a CPU has no units "
    "is numerics only: it has a row and no ratio."
)

RATIO_AT = 8
"""The column at the right: its distance from the axes, points."""


def draw(folder: Path) -> Figure:
    """Return the figure for the study in `folder`."""
    variants = read_table(folder, "throughput")
    blocks = read_table(folder, "throughput_blocks")
    compared = variants[variants["speedup"].notna() | (variants["status"] != "timed")]
    shown = {
        str(workload): compared.loc[compared["workload"] == workload, "label"].tolist()
        for workload in variants["workload"].unique()
    }
    colours = variant_colours(variants)
    figure, panels = rows_of_arms(shown, colours, right=1.5, sharex=True)
    for workload, ax in panels.items():
        here = compared[compared["workload"] == workload]
        for row, variant in enumerate(here.to_dict("records")):
            if variant["status"] != "timed":
                side_note(ax, row, RATIO_AT, str(variant["status"]), MUTED)
                continue
            own = blocks[(blocks["workload"] == workload) & (blocks["variant"] == variant["variant"])]
            colour = colours[str(variant["label"])]
            ax.plot(own["speedup"], [row + 0.22] * len(own), ".", color=colour, markersize=3, alpha=0.6)
            ax.plot([variant["speedup_low"], variant["speedup_high"]], [row - 0.1] * 2, color=colour, linewidth=1.2)
            ax.plot(variant["speedup"], row - 0.1, "o", color=colour, markersize=4.5)
            known = pd.notna(variant["speedup_low"])
            ends = f"[{variant['speedup_low']:.2f}, {variant['speedup_high']:.2f}]" if known else "[too few blocks]"
            side_note(ax, row, RATIO_AT, f"{variant['speedup']:.2f} {ends}")
        ax.axvline(1, color=MUTED, linewidth=0.8)
        ax.set_xlim(axis_of(variants, blocks))
        ax.xaxis.set_major_locator(MaxNLocator(7))
        ax.set_xlabel("speed-up over FP32, same block (ratio of step times)")
        if shown[workload]:
            side_heading(ax, RATIO_AT, "median [95 % interval]")
        else:
            no_data(ax)
    return figure


def axis_of(variants: pd.DataFrame, blocks: pd.DataFrame) -> tuple[float, float]:
    """Return an axis with 1, all intervals and nine of ten blocks on it: one stray block would press the rest together."""
    ends = [1.0, *variants["speedup_low"].dropna(), *variants["speedup_high"].dropna()]
    ends += blocks["speedup"].dropna().quantile([0.05, 0.95]).dropna().tolist()
    low, high = min(ends), max(ends)
    margin = 0.06 * (high - low) or 0.1
    return low - margin, high + margin
