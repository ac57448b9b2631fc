"""A real `halfscale train` that is killed, or finds no room on the disk, goes on and ends in the same bits."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from halfscale.instruments.train import train
from halfscale.study.load import load_study
from halfscale.study.records import read_summary
from halfscale.study.runs import plan_study
from halfscale.study.spec import RunSpec

ROOT = Path(__file__).parents[2]
STEPS = 60

# The command as it is, but for a checkpoint after every tenth step, steps that are told, and room for a file's size.
DRIVER = """
import resource, sys
from contextlib import contextmanager
from halfscale import progress
from halfscale.cli import main
from halfscale.instruments import checkpoint
checkpoint.INTERVAL, checkpoint.SHARE = 0.0, float("inf")
@contextmanager
def told(description, total):
    yield lambda done: print(done, flush=True)
progress.step_bar = told
room, spec, folder = sys.argv[1:]
if room:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), int(room)))
sys.argv = ["halfscale", "train", "--spec", spec, "--output", folder]
main()
"""


@pytest.fixture
def spec() -> RunSpec:
    """The smoke study's transformer in FP16 with dropout and injected overflows, 60 steps of it."""
    study = load_study([ROOT / "config/smoke.yaml"])
    plan = plan_study(study)
    run_id = next(member.run_id for member in plan.members if member.arm == "fp16-injected")
    changed = plan.runs[run_id].model_dump() | {"steps": STEPS, "accumulate": 1}
    changed["model_args"]["dropout"] = 0.1
    return RunSpec.model_validate(changed)


def start(spec: RunSpec, folder: Path, room: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DRIVER, room, spec.canonical(), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_after(process: subprocess.Popen[str], step: int, seconds: float, signal_number: int) -> int:
    """Kill a run some time after a step; return the step that it began with."""
    with process:
        assert process.stdout is not None
        first = int(process.stdout.readline())
        while int(process.stdout.readline()) < step:
            pass
        time.sleep(seconds)
        process.send_signal(signal_number)
    assert process.returncode == -signal_number
    return first


def outcome(folder: Path, spec: RunSpec) -> dict[str, object]:
    return read_summary(folder / "summary.json", spec).model_dump(exclude={"seconds", "sha256"})


def test_it_ends_in_the_same_bits(spec: RunSpec, tmp_path: Path) -> None:
    chance = random.Random(20)
    killed = tmp_path / "killed"
    first = kill_after(start(spec, killed), chance.randrange(12, 25), chance.uniform(0, 0.02), signal.SIGKILL)
    assert first == 1
    kept = [path for path in killed.iterdir() if path.name.startswith("checkpoint_")]
    content = kept[0].read_bytes()

    said, error = start(spec, killed, room=str(len(content) // 2)).communicate()
    assert error == f"halfscale: {kept[0]}: cannot be written: {os.strerror(errno.EFBIG)}\n"
    assert int(said.split()[0]) > 10
    assert kept[0].read_bytes() == content  # the last whole one stays

    first = kill_after(start(spec, killed), chance.randrange(33, 45), chance.uniform(0, 0.02), signal.SIGTERM)
    assert first > 10
    assert not (killed / "summary.json").exists()

    with start(spec, killed) as process:
        said, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    assert int(said.split()[0]) > 30

    train(spec, tmp_path / "undisturbed")
    for name in ("trace.parquet", "samples.parquet"):
        assert (killed / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
    assert outcome(killed, spec) == outcome(tmp_path / "undisturbed", spec)
    assert sorted(path.name for path in killed.iterdir()) == ["samples.parquet", "summary.json", "trace.parquet"]
