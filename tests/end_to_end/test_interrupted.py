"""A study that is killed leaves nothing that looks finished, and the next call ends with the same tables."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from halfscale.study.load import load_study
from halfscale.study.records import read_summary, read_trace
from halfscale.study.runs import plan_study
from halfscale.study.samples import read_samples

ROOT = Path(__file__).parents[2]

Snakemake = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The smoke study's transformer, one seed and three arms of it."""
    yaml = YAML(typ="safe", pure=True)
    settings = yaml.load((ROOT / "config/smoke.yaml").read_text(encoding="utf-8"))
    settings["workloads"] = settings["workloads"][1:]
    settings["arms"] = [arm for arm in settings["arms"] if arm["name"] in ("fp32", "fp16", "fp16-injected")]
    settings["seeds"] = [0]
    path = tmp_path / "short.yaml"
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(settings, file)
    return path


def start(folder: Path, config: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "2"]
    command += ["--directory", str(folder), "--configfile", str(config)]
    with (folder / "killed.log").open("wb") as output:
        return subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, start_new_session=True)


def test_killed_and_called_again(tmp_path: Path, config: Path, snakemake: Snakemake) -> None:
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    killed.mkdir()
    undisturbed.mkdir()
    process = start(killed, config)
    runs = plan_study(load_study([config])).runs
    deadline = time.monotonic() + 120
    while not list(killed.glob("results/smoke/runs/*/summary.json")):  # one run has ended, others are under way
        assert process.poll() is None, (killed / "killed.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for run_id, spec in runs.items():
        folder = killed / "results/smoke/runs" / run_id
        if (folder / "trace.parquet").exists():
            read_trace(folder / "trace.parquet", spec)  # raises unless whole
        if (folder / "samples.parquet").exists():
            read_samples(folder / "samples.parquet", spec)
        if (folder / "summary.json").exists():
            read_summary(folder / "summary.json", spec)
    assert not (killed / "results/smoke/tables").exists()

    snakemake(killed, "--configfile", config, "--unlock")
    targets = [f"results/smoke/tables/{name}.csv" for name in ("arms", "runs", "samples")]
    for folder in (killed, undisturbed):
        done = snakemake(folder, *targets, "--configfile", config)
        assert done.returncode == 0, done.stdout
    for table in ("runs.csv", "arms.csv", "gaps.csv", "samples.csv", "exponents.csv"):
        path = Path("results/smoke/tables") / table
        assert (killed / path).read_bytes() == (undisturbed / path).read_bytes()
    for run_id in runs:
        for name in ("trace.parquet", "samples.parquet"):
            path = Path("results/smoke/runs") / run_id / name
            assert (killed / path).read_bytes() == (undisturbed / path).read_bytes()
