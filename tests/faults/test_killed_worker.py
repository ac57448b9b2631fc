"""A worker that the system kills, as it does when memory runs out: one line, nothing lost, and one call to go on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from halfscale.study.load import load_study
from halfscale.study.records import read_summary
from halfscale.study.runs import plan_study

ROOT = Path(__file__).parents[2]

STUDY = """
study: killed
seeds: [0]
workloads:
  - {name: mine, model: "mine:build", data: digits, data_args: {image_size: 8}, batch_size: 4, steps: 2,
     optimizer: {name: sgd, lr: 0.1}}
arms:
  - {name: fp32, precision: fp32}
"""

# Killed when it is first called, as the kernel kills: at once, and with no word.
MODEL = """
import os, signal
from torch import nn
def build():
    try:
        os.mkdir("killed once")
    except FileExistsError:
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "2"]
    return subprocess.run(
        [*command, "--directory", str(folder), *targets, "--configfile", str(folder / "study.yaml")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_killed_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.yaml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    ((run_id, spec),) = plan_study(load_study([tmp_path / "study.yaml"])).runs.items()
    summary = f"results/killed/runs/{run_id}/summary.json"

    done = run(tmp_path, summary)
    assert done.returncode != 0
    assert f"Logfile results/killed/logs/train/{run_id}.log:" in done.stdout
    line = (
        "halfscale: killed by signal 9 (9 is mostly for want of memory); call again to go on from the last checkpoint"
    )
    assert done.stdout.splitlines().count(line) == 1
    assert not (tmp_path / summary).exists()

    done = run(tmp_path, summary)
    assert done.returncode == 0, done.stdout
    assert read_summary(tmp_path / summary, spec).status == "completed"
