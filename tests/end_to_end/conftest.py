"""The smoke study, run once through Snakemake in a folder of its own, for every end-to-end test."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "config" / "smoke.yaml"

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
def smoke_folder(snakemake: Snakemake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, its name with a space and an umlaut, in which the smoke study has been run."""
    folder = tmp_path_factory.mktemp("smöke study", numbered=False)
    done = snakemake(folder, "--configfile", SMOKE)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture(scope="session")
def smoke(smoke_folder: Path) -> Path:
    """The smoke study's results."""
    return smoke_folder / "results" / "smoke"
