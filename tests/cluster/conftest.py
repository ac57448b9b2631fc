"""A folder to run a study in, and a study of one run that is as slow as is needed.

Only run.sh runs the files beside this one: their names tell pytest nothing, so that it collects none by itself.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

sys.path.append(str(Path(__file__).parent))  # so that tests can import through_slurm

from through_slurm import LOCAL, TRAINING, Folder, edited


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Callable[[str], Folder]]:
    """A function that makes a Folder of a name; processes that are left in it at the end are ended."""
    folders = []

    def make(name: str) -> Folder:
        folders.append(make_folder(tmp_path / name))
        return folders[-1]

    yield make
    for folder in folders:
        folder.stop()


def make_folder(path: Path) -> Folder:
    path.mkdir()
    (path / "mine.py").write_text(TRAINING, encoding="utf-8")
    return Folder(path)


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
def undisturbed(one_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], dict[str, bytes]]:
    """A function that returns the tables of the study of one run, which is run once here, without Slurm, for all tests."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def tables() -> dict[str, bytes]:
        path = shared / "undisturbed"
        with FileLock(shared / "undisturbed.lock"):
            here = Folder(path) if path.exists() else make_folder(path)
            assert here.run(*LOCAL, "results/smoke/tables/arms.csv", "--configfile", one_run) == 0, here.said()
        return here.tables()

    return tables
