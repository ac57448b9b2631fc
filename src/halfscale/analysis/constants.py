"""Constants of a module, read from its source: importing it may take seconds."""

import ast
from pathlib import Path
from typing import Any


def constant_of(path: Path, name: str) -> Any:
    """Return the literal value that a module gives to a name.

    Raises:
        ValueError: it gives none to that name.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise ValueError(f"{path.stem!r} has no {name}")
