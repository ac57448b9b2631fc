"""What must be true of every figure, whatever it shows."""

from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text

SMALLEST = 7
"""Points; smaller type is not read in print."""


EDGES = {
    "reference alone": {"seeds": [0], "arms": ["fp32"]},
    "one seed": {"seeds": [0], "arms": ["fp32", "fp16"]},
    "all diverged": {
        "seeds": [0, 1],
        "arms": ["fp32", "fp16-unscaled", "fp16"],
        "diverged": {"fp32": [0, 1], "fp16": [0, 1]},
    },
}
"""Studies at the edge of what can be drawn, as make_study_folder takes them."""


def check_readable(figure: Figure) -> None:
    """Assert that nothing leaves the page, all type can be read, and no text lies on another."""
    page = figure.get_tightbbox()  # inches
    assert page.x0 >= 0
    assert page.y0 >= 0
    assert page.x1 <= figure.get_figwidth()
    assert page.y1 <= figure.get_figheight()

    written = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    assert min(text.get_size() for text in written) >= SMALLEST

    ticks = {label for ax in figure.axes for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]}
    for first, second in combinations([text for text in written if text not in ticks], 2):
        a, b = first.get_window_extent(), second.get_window_extent()
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert width <= 0 or height <= 1, (first.get_text(), second.get_text())
