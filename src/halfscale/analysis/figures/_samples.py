"""What the figures of sampled steps share: panels side by side, and the steps that stand for a run."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfscale.analysis.style import LARGE, TEXT_WIDTH, in_inches, write

FOOT, LEFT, RIGHT, GAP = 0.5, 0.58, 0.1, 0.08
"""Inches: below the panels of a workload, left and right of them, and between them."""


def side_by_side(
    workloads: Sequence[str], heights: Sequence[float], head: float, right: float = RIGHT
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure of two workloads a row, and the panels of each, one below the other over a common x axis.

    Args:
        workloads: their names, which head the panels.
        heights: of the panels of a workload, inches.
        head: inches above the panels of a workload, for its name and a key.
        right: inches to keep free at the right of each workload.
    """
    block = head + sum(heights) + GAP * (len(heights) - 1) + FOOT
    figure = Figure(figsize=(TEXT_WIDTH, block * -(-len(workloads) // 2)))
    width = TEXT_WIDTH / 2 - LEFT - right
    panels: list[list[Axes]] = []
    for index, workload in enumerate(workloads):
        row, column = divmod(index, 2)
        left, top = LEFT + column * TEXT_WIDTH / 2, figure.get_figheight() - row * block
        write(figure, left - LEFT + 0.05, top - 0.05, workload, va="top", size=LARGE, weight="bold")
        top -= head
        own: list[Axes] = []
        for height in heights:
            top -= height
            own.append(figure.add_axes(in_inches(figure, (left, top, width, height)), sharex=own[0] if own else None))
            own[-1].tick_params(labelbottom=len(own) == len(heights))
            top -= GAP
        panels.append(own)
    return figure, panels


def first_middle_last(steps: Sequence[int]) -> list[int]:
    """Return the first, the middle and the last of some steps, each once."""
    chosen = [steps[0], steps[len(steps) // 2], steps[-1]] if len(steps) else []
    return sorted(set(chosen))
