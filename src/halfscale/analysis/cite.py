"""Cite a figure: what a paper of one's own needs to include it, and to say where it comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from halfscale.analysis.figures import figure_paths
from halfscale.analysis.latex import escape
from halfscale.errors import UserError
from halfscale.machine.provenance import REPOSITORY, git
from halfscale.study.model import Model

CHANGED = ", with uncommitted changes"
"""What is said of code that is not what its commit holds."""


class CitationError(UserError, ValueError):
    """A figure that the study does not have."""


class Input(Model):
    """A file that a figure was drawn from."""

    file: str
    sha256: str


class Runs(Model):
    """Where a figure's runs were computed."""

    commits: list[str]
    clean: bool
    torch: list[str]


class Sidecar(Model):
    """What stands beside a figure, as halfscale.analysis.draw writes it."""

    name: str
    title: str
    caption: str
    script: str
    command: str
    commit: str
    clean: bool
    versions: dict[str, str]
    inputs: list[Input]
    devices: list[str]
    runs: Runs


def drawn_figures(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the sidecars of the figures that a study has, by name.

    Raises:
        CitationError: there is no such folder, or one is not whole.
    """
    if not folder.is_dir():
        raise CitationError(f"{folder}: is no folder; allowed: that of a study's results, such as results/quickstart")
    return {path.stem: read_sidecar(path) for path in figure_paths(folder, "json")}


def read_sidecar(path: Path) -> dict[str, Any]:
    """Return a figure's sidecar.

    Raises:
        CitationError: it is not whole.
    """
    try:
        return Sidecar.model_validate_json(path.read_text(encoding="utf-8")).model_dump()
    except ValueError:  # of pydantic, and of what is no UTF-8
        again = f"halfscale figure {path.parent.parent} {path.stem}"
        raise CitationError(f"{path}: is no whole record of a figure; `{again}` draws it anew") from None


def list_figures(folder: Path) -> Iterator[str]:
    """Yield a line for each figure of a study: its name and what it shows.

    Raises:
        CitationError: it has none.
    """
    figures = drawn_figures(folder)
    if not figures:
        raise CitationError(f"{folder}: has no figures; `make study` draws those of the default study")
    width = max(map(len, figures))
    for name, sidecar in figures.items():
        yield f"{name:{width}}  {sidecar['title']}"


def cite(name: str, folder: Path) -> str:
    """Return a figure as LaTeX with caption and label, where it comes from as comments, and BibTeX for the suite.

    Raises:
        CitationError: the study has no such figure.
    """
    figures = drawn_figures(folder)
    if name not in figures:
        raise CitationError(f"{folder}: has no figure {name!r}; allowed: {', '.join(figures) or 'none is drawn yet'}")
    sidecar = figures[name]
    return "\n".join([*provenance(sidecar), "", *include(name, sidecar, folder), "", *bibtex(sidecar), ""])


def provenance(sidecar: dict[str, Any]) -> Iterator[str]:
    """Yield comments that say how the figure was made, of what."""
    versions = ", ".join(f"{package} {version}" for package, version in sidecar["versions"].items())
    runs = sidecar["runs"]
    yield f"% Drawn by `{sidecar['command']}`"
    yield f"% with {versions}"
    yield f"% (commit {sidecar['commit']}{'' if sidecar['clean'] else CHANGED}, {sidecar['script']}),"
    yield f"% from runs on {', '.join(sidecar['devices'])} with PyTorch {', '.join(runs['torch'])}"
    yield f"% (commit {', '.join(runs['commits'])}{'' if runs['clean'] else CHANGED}):"
    for source in sidecar["inputs"]:
        yield f"%   {source['file']}  sha256 {source['sha256']}"


def include(name: str, sidecar: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield the figure environment. Its path is the one that the study was given by; \\graphicspath can lead there."""
    yield r"\begin{figure}[t]"
    yield r"  \centering"
    yield rf"  \includegraphics[width=\linewidth]{{{(folder / 'figures' / f'{name}.pdf').as_posix()}}}"
    yield rf"  \caption{{{escape(sidecar['title'])}. {escape(sidecar['caption'])} Drawn with halfscale~\cite{{halfscale}}.}}"
    yield rf"  \label{{fig:{name.replace('_', '-')}}}"
    yield r"\end{figure}"


def bibtex(sidecar: dict[str, Any]) -> Iterator[str]:
    """Yield the suite's BibTeX entry, as CITATION.cff has it, at the commit that drew the figure; its year, where known."""
    about = read_citation()
    year = git("show", "--no-patch", "--format=%cd", "--date=format:%Y", sidecar["commit"])
    authors = " and ".join(f"{{{author['name']}}}" for author in about["authors"])
    yield "@misc{halfscale,"
    yield f"  author  = {{{authors}}},"
    yield f"  title   = {{{about['title']}}},"
    yield f"  version = {{{about['version']}}},"
    if year:
        yield f"  year    = {{{year}}},"
    yield f"  note    = {{commit {sidecar['commit']}}},"
    yield "}"


def read_citation() -> dict[str, Any]:
    """Return what CITATION.cff says of the suite.

    Raises:
        CitationError: it is not there, for this is no clone.
    """
    path = REPOSITORY / "CITATION.cff"
    if not path.is_file():
        raise CitationError(f"{path}: is missing; the halfscale of a clone knows how it is cited")
    return dict(YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8")))
