"""A folder to run a study in, and a study of one run that is as slow as is needed.

Only run.sh runs the files beside this one: their names tell pytest nothing, so that it collects none by itself.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # so that tests can import through_slurm

from through_slurm import LOCAL, TRAINING, Folder, edited


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Callable[[str], Folder]]:
    """A function that makes a Folder of a name; processes that are left in it at the end are ended."""
    folders = []

    def make(name: str) -> Folder:
        path = tmp_path / name
        path.mkdir()
        (path / "mine.py").write_text(TRAINING, encoding="utf-8")
        folders.append(Folder(path))
        return folders[-1]

    yield make
    for folder in folders:
        folder.stop()


@pytest.fixture
def one_run(tmp_path: Path) -> Path:
    """The config of a study of one run: 240 forward passes of `mine:build`, and those of its evaluation."""

    def edit(settings: dict[str, Any]) -> None:
        transformer = next(workload for workload in settings["workloads"] if workload["name"] == "transformer")
        settings["workloads"] = [transformer | {"model": "mine:build", "model_args": {}, "steps": 120}]
        settings["arms"] = [arm for arm in settings["arms"] if arm["name"] == "fp32"]
        settings["seeds"] = [0]

    return edited(tmp_path, edit)


@pytest.fixture
def undisturbed(folder: Callable[[str], Folder], one_run: Path) -> Callable[[], dict[str, bytes]]:
    """A function that runs the study of one run here, without Slurm, and returns its tables."""

    def run() -> dict[str, bytes]:
        here = folder("undisturbed")
        assert here.run(*LOCAL, "results/smoke/tables/arms.csv", "--configfile", one_run) == 0, here.said()
        return here.tables()

    return run
