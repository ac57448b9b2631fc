"""The figures, one file each. What is said of them is read from their source: importing them would take seconds.

A figure is a module with INPUTS (files it reads, relative to the study folder), TITLE, CAPTION and draw(folder), which
returns a matplotlib Figure. To add a figure, add its file.
"""

import pkgutil
from pathlib import Path

from halfscale.analysis.constants import constant_of

FIGURES = Path(__file__).parent

FIGURE_FILES = ("pdf", "png", "json", "rst")
"""How the files of a figure end: for the paper, for the web, where it comes from, its caption."""


def figure_names() -> list[str]:
    """Return the names of all figures."""
    return sorted(module.name for module in pkgutil.iter_modules([str(FIGURES)]) if not module.name.startswith("_"))


def figure_text(name: str, what: str) -> str:
    """Return a figure's TITLE or CAPTION."""
    return str(constant_of(FIGURES / f"{name}.py", what))


def figure_paths(folder: Path, suffix: str) -> list[Path]:
    """Return the files of one kind that a study has of its figures, by name, and no others that lie beside them.

    Args:
        folder: the study's results.
        suffix: one of FIGURE_FILES.
    """
    paths = (folder / "figures" / f"{name}.{suffix}" for name in figure_names())
    return [path for path in paths if path.is_file()]


def figure_inputs(name: str) -> tuple[str, ...]:
    """Return the files that a figure reads, relative to the study folder."""
    return tuple(constant_of(FIGURES / f"{name}.py", "INPUTS"))
