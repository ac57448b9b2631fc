"""Models and data by name, read without importing them, so that planning a study needs no torch.

A name is either a file of halfscale/workloads/models or halfscale/workloads/data, whose function is `build`,
or package.module:function of the user's own. Its signature says which arguments a config may give;
positional-only parameters (the seed of a data set) are not the config's to give.
"""

import ast
import difflib
import importlib.util
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError, create_model

WORKLOADS = Path(__file__).parents[1] / "workloads"
FOLDERS = {"model": "models", "data": "data"}
TYPES: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True)
class EntryPoint:
    """A function that builds a model or a data set: where it is and what it takes."""

    name: str
    module: str
    function: str
    source: Path
    parameters: tuple[tuple[str, Any, Any], ...]
    """Name, type and default of each; the default is ... where an argument must be given."""
    open_ended: bool
    """Whether it takes any keyword argument (**kwargs)."""


def known_names(kind: Literal["model", "data"]) -> list[str]:
    """Return the names that halfscale itself provides."""
    return sorted(path.stem for path in (WORKLOADS / FOLDERS[kind]).glob("*.py") if path.stem != "__init__")


def find_entry_point(kind: Literal["model", "data"], name: str) -> EntryPoint:
    """Find a model or a data set by name.

    Raises:
        ValueError: there is none of that name, or its function cannot be read.
    """
    if ":" in name:
        module, _, function = name.partition(":")
    elif name in known_names(kind):
        module, function = f"halfscale.workloads.{FOLDERS[kind]}.{name}", "build"
    else:
        names = known_names(kind)
        close = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"{kind}: {name!r} is unknown{hint}; allowed: {', '.join(names)}, or package.module:function")
    source = find_source(module)
    if source is None:
        raise ValueError(f"{kind}: {name!r}: no module {module!r} is installed or in this folder")
    parameters, open_ended = read_signature(source, function, source.stat().st_mtime_ns)
    return EntryPoint(name, module, function, source, parameters, open_ended)


def find_source(module: str) -> Path | None:
    """Return the source file of a module, or None where there is no such Python module."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a user's own package may simply lie in the folder they work in
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@cache
def read_signature(source: Path, function: str, _mtime: int) -> tuple[tuple[tuple[str, Any, Any], ...], bool]:
    """Read a module-level function's parameters from its source text.

    Raises:
        ValueError: the file does not parse, or has no such function.
    """
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ValueError(f"{source} is not valid Python: {error}") from None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == function:
            return parameters_of(node)
    raise ValueError(f"{source} has no function {function!r}")


def parameters_of(node: ast.FunctionDef | ast.ClassDef) -> tuple[tuple[tuple[str, Any, Any], ...], bool]:
    """Return (name, type, default) of each parameter, and whether any keyword is taken."""
    if isinstance(node, ast.ClassDef):
        inits = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
        if not inits:
            return (), True
        arguments = inits[0].args
        positional = arguments.args[1:]
    else:
        arguments = node.args
        positional = arguments.args
    count = min(len(positional), len(arguments.defaults))
    defaults: list[ast.expr | None] = [None] * (len(positional) - count)
    defaults += arguments.defaults[len(arguments.defaults) - count :]
    named = [*zip(positional, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    parameters = tuple((argument.arg, type_of(argument), default_of(default)) for argument, default in named)
    return parameters, arguments.kwarg is not None


def type_of(argument: ast.arg) -> Any:
    return TYPES.get(argument.annotation.id, Any) if isinstance(argument.annotation, ast.Name) else Any


def default_of(default: ast.expr | None) -> Any:
    if default is None:
        return ...
    try:
        return ast.literal_eval(default)
    except ValueError:
        return ast.unparse(default)


def bind_arguments(entry_point: EntryPoint, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with defaults filled in.

    Raises:
        ValueError: an argument is unknown, missing, or of the wrong type.
    """
    fields: dict[str, Any] = {name: (kind, default) for name, kind, default in entry_point.parameters}
    extra: Literal["allow", "forbid"] = "allow" if entry_point.open_ended else "forbid"
    config = ConfigDict(extra=extra, strict=True, allow_inf_nan=False, protected_namespaces=())
    arguments = create_model("Arguments", __config__=config, **fields)
    try:
        return arguments.model_validate(given).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        allowed = ", ".join(name for name, _, _ in entry_point.parameters) or "none"
        value = "" if first["type"] == "missing" else f" = {first['input']!r}"
        raise ValueError(
            f"{entry_point.name}: argument {key}{value}: {first['msg']}; its arguments: {allowed}"
        ) from None
