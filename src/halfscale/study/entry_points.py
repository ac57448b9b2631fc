"""Models and data by name, read without importing them, so that planning a study needs no torch.

A name is either a file of halfscale/workloads/models or halfscale/workloads/data, whose function is `build`,
or package.module:function of the user's own. Its signature says which arguments a config may give;
positional-only parameters (the seed of a data set) are not the config's to give.
"""

import ast
import importlib.util
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal

from halfscale.study.explain import did_you_mean, shorten, show_key

WORKLOADS = Path(__file__).parents[1] / "workloads"
FOLDERS = {"model": "models", "data": "data"}
ALLOWED = {
    "int": "a whole number of 64 bits, written without quotes",
    "float": "a finite number, written without quotes",
    "bool": "true or false",
    "str": "text, in quotes where it looks like a number or a date",
    "any": "text, finite numbers, true, false, null, and lists and mappings of them",
}
NO_DEFAULT = object()
"""Stands for the default of an argument that has none, or none that JSON can hold."""


@dataclass(frozen=True)
class Parameter:
    """What an entry point takes under one name."""

    name: str
    type: str
    """A key of ALLOWED; "any" where the annotation is another or there is none."""
    default: Any
    required: bool


@dataclass(frozen=True)
class EntryPoint:
    """A function that builds a model or a data set: where it is and what it takes."""

    kind: Literal["model", "data"]
    name: str
    module: str
    function: str
    source: Path
    parameters: tuple[Parameter, ...]
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
        raise ValueError(
            f"{kind} = {name!r}: unknown{did_you_mean(name, names)}; "
            f"allowed: {', '.join(names)}, or package.module:function"
        )
    source = find_source(module)
    if source is None:
        raise ValueError(f"{kind} = {name!r}: no Python module {module!r} is installed or in this folder")
    try:
        parameters, open_ended = read_signature(source, function, source.stat().st_mtime_ns)
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{kind} = {name!r}: {source}: {error}") from None
    return EntryPoint(kind, name, module, function, source, parameters, open_ended)


def find_source(module: str) -> Path | None:
    """Return the source file of a module, or None where there is no such Python module. Imports nothing."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a user's own package may simply lie in the folder they work in
    first, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        for part in rest:  # find_spec("a.b") would import a, and with it whatever a imports
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@cache
def read_signature(source: Path, function: str, _mtime: int) -> tuple[tuple[Parameter, ...], bool]:
    """Read a module-level function's parameters from its source text.

    Raises:
        OSError: the file cannot be read.
        SyntaxError: it is no Python.
        ValueError: it is no text, or has no such function.
    """
    for node in ast.parse(source.read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == function:
            return parameters_of(node)
    raise ValueError(f"no function or class {function!r} is defined there")


def parameters_of(node: ast.FunctionDef | ast.ClassDef) -> tuple[tuple[Parameter, ...], bool]:
    """Return the parameters, and whether any keyword is taken."""
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
    parameters = tuple(make_parameter(argument, default) for argument, default in named)
    return parameters, arguments.kwarg is not None


def make_parameter(argument: ast.arg, default: ast.expr | None) -> Parameter:
    """Describe one parameter. A default that JSON cannot hold, such as a class, stays the function's own affair."""
    annotation = argument.annotation.id if isinstance(argument.annotation, ast.Name) else "any"
    kind = annotation if annotation in ALLOWED else "any"
    value: Any = NO_DEFAULT
    if default is not None:
        try:
            value = checked(ast.literal_eval(default), kind)
        except (ValueError, TypeError):
            value = NO_DEFAULT
    return Parameter(argument.arg, kind, value, required=default is None)


def bind_arguments(entry_point: EntryPoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with defaults filled in, so that one experiment has one canonical form.

    Raises:
        ValueError: an argument is unknown, missing, or of the wrong type.
    """
    known = {parameter.name: parameter for parameter in entry_point.parameters}
    where = f"{entry_point.kind}_args"
    allowed = f"allowed: {', '.join(known) or 'none'}"
    arguments = {name: parameter.default for name, parameter in known.items() if parameter.default is not NO_DEFAULT}
    for name, value in given.items():
        if name not in known and not entry_point.open_ended:
            raise ValueError(
                f"{where}.{show_key(name)} = {shorten(value)}: {entry_point.name} takes no such argument"
                f"{did_you_mean(name, known)}; {allowed}"
            )
        try:
            arguments[name] = checked(value, known[name].type if name in known else "any")
        except ValueError as error:
            raise ValueError(f"{where}.{show_key(name)} = {shorten(value)}: {error}") from None
    for parameter in entry_point.parameters:
        if parameter.required and parameter.name not in given:
            raise ValueError(f"{where}.{parameter.name}: missing; {entry_point.name} needs it; {allowed}")
    return arguments


def checked(value: Any, kind: str) -> Any:
    """Return a value as an argument of a type (a key of ALLOWED): whole numbers become floats where floats stand.

    Raises:
        ValueError: it is of another type, or nothing that JSON can hold.
    """
    match kind, value:
        case "any", dict():
            if not all(isinstance(key, str) for key in value):
                raise ValueError("a key must be text, in quotes where it looks like a number")
            return {key: checked(item, "any") for key, item in value.items()}
        case "any", list():
            return [checked(item, "any") for item in value]
        case "any", None:
            return None
        case "any" | "bool", bool():
            return value
        case (("any" | "str"), str()):
            value.encode()  # a lone surrogate is no text
            return value
        case (("any" | "int"), int()) if not isinstance(value, bool) and abs(value) < 2**63:
            return value
        case (("any" | "float"), float()) if math.isfinite(value):
            return value
        case "float", int() if not isinstance(value, bool) and abs(value) < 2**63:
            return float(value)
    raise ValueError(f"allowed: {ALLOWED[kind]}")
