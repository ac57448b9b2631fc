"""Which source files a stage depends on, so that editing a figure never retrains and editing the training loop does.

Imports are read from the source, not carried out; those inside functions count.
"""

import ast
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from halfscale.study.entry_points import find_entry_point
from halfscale.study.spec import RunSpec

PACKAGE = Path(__file__).parents[1]


def sources_digest(modules: Sequence[str], package: Path = PACKAGE) -> str:
    """Return the SHA-256, in hex, over the modules' sources and those of all they import from this package.

    Taken once a process: an edit shows in the next one.

    Args:
        modules: full names, such as halfscale.instruments.train.
        package: the folder of the package they belong to.

    Raises:
        ValueError: there is no such module in the package.
    """
    return digest_of(tuple(sorted(set(modules))), package)


def run_digest(spec: RunSpec) -> str:
    """Return instrument_digest of a run's training."""
    return instrument_digest("halfscale.instruments.train", spec.model, spec.data)


@cache
def instrument_digest(instrument: str, model: str, data: str | None) -> str:
    """Return the SHA-256, in hex, over every source that decides what an instrument computes.

    That is the instrument with all it imports, and the files of the model and the data, the user's own included. Taken
    once a process, like sources_digest.

    Args:
        instrument: the module's full name.
        model: name of the model, as in a config.
        data: name of the data; None where there is none.

    Raises:
        ValueError: the model or the data is not to be found.
    """
    modules = [instrument]
    others: list[Path] = []
    for entry_point in [find_entry_point("model", model), *([find_entry_point("data", data)] if data else [])]:
        if entry_point.source.is_relative_to(PACKAGE):
            modules.append(entry_point.module)
        else:
            others.append(entry_point.source)
    digest = hashlib.sha256(sources_digest(modules).encode())
    for source in others:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()


@cache
def digest_of(modules: tuple[str, ...], package: Path) -> str:
    digest = hashlib.sha256()
    for file in closure(modules, package):
        name = file.relative_to(package).as_posix()
        digest.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def closure(modules: Iterable[str], package: Path = PACKAGE) -> list[Path]:
    """Return the modules' files and those of all they import from this package, sorted.

    Raises:
        ValueError: there is no such module in the package.
    """
    todo: list[Path] = []
    for module in modules:
        files = files_of(module, package)
        if not files:
            raise ValueError(f"{package} has no module {module!r}")
        todo += files
    found: set[Path] = set()
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += [path for name in imports_of(file, package) for path in files_of(name, package)]
    return sorted(found)


@cache
def files_of(module: str, package: Path) -> list[Path]:
    """Return the files that importing a module runs: its own and its packages'; none if it is no module of ours."""
    parts = module.split(".")
    path = package.parent.joinpath(*parts)
    own = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if parts[0] != package.name or not own.is_file():
        return []
    parents = [package.parent.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts))]
    return [own, *(parent for parent in parents if parent.is_file())]


@cache
def imports_of(file: Path, package: Path) -> list[str]:
    """Return the full name of everything a file imports; `from a import b` may name the module a or a.b."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = file.relative_to(package.parent).with_suffix("").parts[: -node.level]
                base = ".".join([*parents, *filter(None, [node.module])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names
