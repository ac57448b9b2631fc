"""The command's own answers: what is told in a line, and what is left as it was."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
Halfscale = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def halfscale(tmp_path: Path) -> Halfscale:
    """A function that runs the command in a folder of its own."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(ROOT / "tests" / "instruments"), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "halfscale", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("command", ["collect", "tables", "figure", "macros", "paper"])
def test_a_folder_that_is_no_study_is_told_by_name_and_stays_as_it_was(
    halfscale: Halfscale, tmp_path: Path, command: str
) -> None:
    done = halfscale(command, "results/nope")
    assert done.returncode == 1
    assert done.stderr.startswith("halfscale: results/nope/plan.json: cannot be read")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_needs_a_workload_and_an_arm(halfscale: Halfscale) -> None:
    done = halfscale("train", "--output", "run", "--config", ROOT / "config" / "smoke.yaml")
    assert done.returncode == 1
    assert done.stderr == "halfscale: --workload and --arm are needed, or --spec; `halfscale plan` lists them\n"


def test_a_finished_run_is_not_written_over_by_another(halfscale: Halfscale, tmp_path: Path) -> None:
    config = tmp_path / "tiny.yaml"
    config.write_text(
        "study: tiny\nseeds: [0, 1]\n"
        "workloads: [{name: tiny, model: 'tiny_workloads:classifier', data: 'tiny_workloads:clouds', batch_size: 8, "
        "steps: 4, optimizer: {name: sgd, lr: 0.1}}]\n"
        "arms: [{name: fp32, precision: fp32}]\n"
    )
    command = ("train", "--config", config, "--workload", "tiny", "--arm", "fp32", "--output", "run")
    assert halfscale(*command, "--seed", "0").returncode == 0
    before = (tmp_path / "run" / "summary.json").read_bytes()
    done = halfscale(*command, "--seed", "1")
    assert done.returncode == 1
    assert "run/summary.json: belongs to another spec" in done.stderr
    assert (tmp_path / "run" / "summary.json").read_bytes() == before
    assert halfscale(*command, "--seed", "0").returncode == 0


def test_the_version_is_that_of_the_project(halfscale: Halfscale) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert halfscale("--version").stdout == f"halfscale {project['version']}\n"
