"""The smoke study, run once through Snakemake in a folder of its own, for every end-to-end test."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "config" / "smoke.yaml"
MADE, UNTOUCHED = "smöke study", "smoke untouched"

Snakemake = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def snakemake() -> Snakemake:
    """A function that runs Snakemake in a folder and returns its finished process; output in `stdout`."""

    def run(folder: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "2"]
        return subprocess.run(
            [*command, "--directory", str(folder), *map(str, arguments)],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def made_smoke(snakemake: Snakemake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the smoke study in it, run once for all the processes that share out the tests."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = shared / MADE, shared / "smoke.done"
    with FileLock(shared / "smoke.lock"):
        if not done.exists():
            folder.mkdir()
            run = snakemake(folder, "--configfile", SMOKE)
            assert run.returncode == 0, run.stdout
            shutil.copytree(folder / "results" / "smoke", shared / UNTOUCHED)
            done.touch()
    return shared


@pytest.fixture(scope="session")
def smoke_folder(made_smoke: Path) -> Path:
    """A folder, its name with a space and an umlaut, in which the smoke study has been run. For one file of tests to
    change and to put back."""
    return made_smoke / MADE


@pytest.fixture(scope="session")
def smoke(smoke_folder: Path) -> Path:
    """The smoke study's results in that folder."""
    return smoke_folder / "results" / "smoke"


@pytest.fixture(scope="session")
def untouched_smoke(made_smoke: Path) -> Path:
    """The smoke study's results as they came, which nobody changes."""
    return made_smoke / UNTOUCHED
