"""The paper of a study: gather its sources and what was measured in one folder, and have TeX make the PDF."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from ruamel.yaml import YAML

from halfscale.analysis.collect import read_plan
from halfscale.analysis.figures import figure_paths
from halfscale.analysis.latex import escape
from halfscale.analysis.prose import Measured, write_prose
from halfscale.errors import UserError
from halfscale.machine.provenance import git
from halfscale.study.config import Study
from halfscale.study.whole import whole_file, write_text

ENGINES = {
    # -norc: the settings of whoever builds must not change the paper.
    "latexmk": ["-norc", "-pdf", "-halt-on-error", "-interaction=nonstopmode", "-file-line-error"],
    "tectonic": ["--keep-logs"],
}
"""TeX engines and their arguments, the preferred one first."""

EPOCH = "1735689600"
"""Time of a paper that is built outside a git repository: 2025-01-01."""

TOO_WIDE = 10.0
"""Points by which a box may stick out before it is an error."""

FAULTS = (
    re.compile(r"^.*Warning: (?:Reference|Citation|Hyper reference) .*undefined.*$", re.MULTILINE),
    re.compile(r"^.*Warning: Label .*multiply defined.*$", re.MULTILINE),
    re.compile(r"^Missing character: .*$", re.MULTILINE),
)
"""What TeX only warns of, but no paper may have."""

OVERFULL = re.compile(
    r"^(?P<complaint>Overfull .*?\((?P<points>\d+\.\d+)pt too (?:wide|high)\).*)\n?(?P<content>.*)$", re.MULTILINE
)
"""A box that sticks out, and the line after it, which holds its content."""

FONT = re.compile(r"\\\w+(?:/[\w.-]+)+(?: \([+-]?\d+\))? ?|\[\]|\|")
"""What TeX's log puts between the words of a box: a change of font, an inner box, and the mark of a hyphen."""


class PaperError(UserError, RuntimeError):
    """The paper cannot be built; the message names the log and the first thing that is wrong."""


def build_paper(folder: Path, sources: Path) -> None:
    """Build <folder>/paper.pdf. The same inputs give the same bytes.

    Args:
        folder: a study's results: plan.json, tables, figures and paper/macros.tex.
        sources: the paper's LaTeX sources, main.tex among them.

    Raises:
        PaperError: no TeX engine is installed, TeX fails, or its log holds an undefined reference or citation, a
            missing character, or a box that sticks out by more than TOO_WIDE points.
        RecordError: plan.json is missing or no plan.
        OSError: an input is missing.
    """
    read_plan(folder)  # before anything is made in what may be no study's folder
    build = folder / "paper" / "build"
    shutil.rmtree(build, ignore_errors=True)
    gather(folder, sources, build)
    typeset(build)
    with whole_file(folder / "paper.pdf") as temporary:
        shutil.copyfile(build / "main.pdf", temporary)


def gather(folder: Path, sources: Path, build: Path) -> None:
    """Put everything that TeX reads in one folder: a path to it may hold what TeX cannot read."""
    shutil.copytree(sources, build)
    shutil.copyfile(folder / "paper" / "macros.tex", build / "macros.tex")
    # Not what begins with a dot: a killed writer may have left it.
    for kind, paths in (("figures", figure_paths(folder, "pdf")), ("tables", folder.glob("tables/[!.]*.tex"))):
        (build / kind).mkdir()
        for path in paths:
            shutil.copyfile(path, build / kind / path.name)
    measured = Measured.read(folder)
    described = [
        f"{path.parent.name}/{path.stem}" for kind in ("models", "data") for path in (sources / kind).glob("*.tex")
    ]
    for name, text in write_prose(measured, described).items():
        write_text(build / "generated" / f"{name}.tex", text)
    write_text(build / "generated" / "captions.tex", captions(folder))
    write_config(measured.plan.study, build / "generated" / "config.yaml")


def captions(folder: Path) -> str:
    """Return the caption of every sidecar of a study's figures as the LaTeX command named caption-<figure>.

    Raises:
        PaperError: a sidecar is not whole.
    """
    lines = []
    for path in figure_paths(folder, "json"):
        try:
            caption = escape(json.loads(path.read_text(encoding="utf-8"))["caption"])
        except (ValueError, KeyError, TypeError):
            raise PaperError(f"{path}: is no whole record of a figure; delete it to have it drawn again") from None
        lines.append(rf"\expandafter\newcommand\csname caption-{path.stem}\endcsname{{{caption}}}")
    return "\n".join(lines) + "\n"


def write_config(study: Study, path: Path) -> None:
    """Write a study's config as YAML, an arm or a workload a line, without what is as it would be by default."""
    settings = study.model_dump(exclude_defaults=True)
    yaml = YAML(typ="safe")
    yaml.default_flow_style = None  # only the innermost mappings and lists on one line
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 1000
    with whole_file(path) as temporary:
        yaml.dump(settings, temporary)


def typeset(build: Path) -> None:
    """Run TeX on main.tex in the build folder.

    Raises:
        PaperError: as build_paper.
    """
    engine = find_engine()
    done = subprocess.run(
        [*engine, "main.tex"],
        cwd=build,
        env={**os.environ, **reproducible()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    log = build / "main.log"
    if not log.exists():
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
    fault = first_fault(log.read_text(encoding="utf-8", errors="replace"))
    if done.returncode or fault:
        raise PaperError(f"{log}: {fault or last_line(done.stdout + done.stderr)}")


def find_engine() -> list[str]:
    """Return the command of the first engine that is installed.

    Raises:
        PaperError: none is.
    """
    for name, arguments in ENGINES.items():
        path = shutil.which(name)
        if path:
            return [path, *arguments]
    raise PaperError(
        "the paper needs latexmk or tectonic, and neither is installed; on Debian: apt-get install latexmk lmodern "
        "texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended texlive-science"
    )


def reproducible() -> dict[str, str]:
    """Return environment variables that keep the time, and line breaks in the log, out of what TeX writes."""
    epoch = git("log", "-1", "--format=%ct") or EPOCH
    return {"SOURCE_DATE_EPOCH": epoch, "FORCE_SOURCE_DATE": "1", "max_print_line": "10000"}


def first_fault(log: str) -> str | None:
    """Return the first line of a TeX log that makes a paper unfit; None where there is none."""
    error = re.search(r"^(?:! |\S+\.\w+:\d+: ).*$", log, re.MULTILINE)
    if error:
        return error.group()
    for pattern in FAULTS:
        warning = pattern.search(log)
        if warning:
            return warning.group()
    return next((overfull(log, box) for box in OVERFULL.finditer(log) if float(box["points"]) > TOO_WIDE), None)


def overfull(log: str, box: re.Match[str]) -> str:
    """Return TeX's complaint of a box, the file that it is in, the words in it, and what may help."""
    words = FONT.sub("", box["content"]).strip()
    place = f"{box['complaint']} in {open_file(log[: box.start()])}" + (f', at "{words}"' if words else "")
    return f"{place}; the name of an arm or a workload may be too long there: shorten it in the config"


def open_file(log: str) -> str:
    """Return the file that TeX is reading at the end of a piece of its log, which has it in brackets."""
    files: list[str] = []
    for bracket in re.finditer(r"\(([^\s()]*)|\)", OVERFULL.sub("", log)):
        if bracket.group() != ")":
            files.append(bracket.group(1))
        elif files:
            files.pop()
    return next((name.removeprefix("./") for name in reversed(files) if name.startswith("./")), "main.tex")


def last_line(output: str) -> str:
    """Return the last line that says something."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
