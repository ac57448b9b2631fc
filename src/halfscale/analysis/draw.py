"""Draw a figure from a study's tables and traces.

PDF for the paper, PNG for the web, a JSON sidecar for provenance, and its caption as the HTML report takes it.
"""

import json
import shlex
from importlib import import_module
from pathlib import Path
from types import ModuleType

from halfscale.analysis.environments import read_environments
from halfscale.analysis.figures import FIGURE_FILES, figure_names
from halfscale.errors import UserError
from halfscale.machine.provenance import git_commit, python_version, versions
from halfscale.study.records import sha256
from halfscale.study.whole import remove_unfinished, whole_file, write_text


class FigureError(UserError, ValueError):
    """A figure that does not exist."""


def draw_figure(name: str, folder: Path) -> None:
    """Draw one figure of the study in `folder`: figures/<name>.pdf, .png, .json and .rst.

    Same inputs, same bytes: no time stamp, and only fonts that ship with matplotlib.

    Raises:
        FigureError: there is no figure of that name.
        RecordError: environments.json is missing, which `halfscale collect` writes.
        OSError: an input is missing.
    """
    if name not in figure_names():
        raise FigureError(f"figure {name!r} is unknown; allowed: {', '.join(figure_names())}")
    import matplotlib as mpl

    mpl.use("Agg")
    from halfscale.analysis import style

    module = import_module(f"halfscale.analysis.figures.{name}")
    target = folder / "figures"
    for suffix in FIGURE_FILES:  # one job at a time draws a figure, so that none of these is being written
        remove_unfinished(target / f"{name}.{suffix}")
    with mpl.rc_context():
        mpl.rcdefaults()  # a matplotlibrc on this machine must not change the figure
        mpl.rcParams.update(style.RC)  # type: ignore[arg-type]
        figure = module.draw(folder)
        with whole_file(target / f"{name}.pdf") as path:
            figure.savefig(path, metadata={"CreationDate": None})
        with whole_file(target / f"{name}.png") as path:
            figure.savefig(path)
    # What is true of this study's figure alone goes on where the module's caption ends.
    caption = f"{module.CAPTION} {figure.get_label()}".strip()
    write_text(target / f"{name}.rst", f"{caption}\n")
    said = json.dumps(sidecar(name, module, folder, caption), indent=1, allow_nan=False)
    write_text(target / f"{name}.json", f"{said}\n")


def sidecar(name: str, module: ModuleType, folder: Path, caption: str) -> dict[str, object]:
    """Return what a figure shows, what it was drawn from, and how to draw it again."""
    commit, clean = git_commit()
    ran = read_environments(folder)
    return {
        "name": name,
        "title": module.TITLE,
        "caption": caption,
        "script": f"src/halfscale/analysis/figures/{name}.py",
        "command": shlex.join(["halfscale", "figure", without_home(folder).as_posix(), name]),
        "commit": commit,
        "clean": clean,
        "versions": {
            "python": python_version(),
            **versions("halfscale", "matplotlib", "numpy", "pandas", "pyarrow", "seaborn"),
        },
        "inputs": [{"file": file, "sha256": sha256(folder / file)} for file in module.INPUTS],
        "devices": ran.devices,
        "runs": {"commits": ran.commits, "clean": ran.clean, "torch": ran.torch},
    }


def without_home(folder: Path) -> Path:
    """Return a folder as one may publish it: relative to where the command runs, or else by its name alone."""
    if not folder.is_absolute():
        return folder
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else Path(folder.name)
