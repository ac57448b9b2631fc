"""The figures, one file each. What is said of them is read from their source: importing them would take seconds.

A figure is a module with INPUTS (files it reads, relative to the study folder), TITLE, CAPTION and draw(folder), which
returns a matplotlib Figure. To add a figure, add its file.
"""

import ast
import pkgutil
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parent


def figure_names() -> list[str]:
    """Return the names of all figures."""
    return sorted(module.name for module in pkgutil.iter_modules([str(FIGURES)]) if not module.name.startswith("_"))


def figure_text(name: str, what: str) -> str:
    """Return a figure's TITLE or CAPTION."""
    return str(figure_value(name, what))


def figure_inputs(name: str) -> tuple[str, ...]:
    """Return the files that a figure reads, relative to the study folder."""
    return tuple(figure_value(name, "INPUTS"))


def figure_value(name: str, what: str) -> Any:
    """Return one of the values that a figure's module gives to a name.

    Raises:
        ValueError: it gives none to that name.
    """
    tree = ast.parse((FIGURES / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == what:
            return ast.literal_eval(node.value)
    raise ValueError(f"figure {name!r} has no {what}")
