"""A run that was killed and goes on from its checkpoint ends in the same bits as one that was not."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from halfscale.instruments import checkpoint
from halfscale.instruments.checkpoint import CheckpointError, Checkpoints, checkpoint_path
from halfscale.instruments.run import prepare
from halfscale.instruments.train import train
from halfscale.study.records import read_summary
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]

ARMS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp32-ulp": {"perturb": "ulp"},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16", "loss_scaling": {"kind": "dynamic", "init_scale": 2.0**24, "growth_interval": 7}},
    "static": {"precision": "fp16", "loss_scaling": {"kind": "static", "scale": 1024.0}},
    "injected": {
        "precision": "fp16",
        "loss_scaling": {"kind": "dynamic", "growth_interval": 4},
        "inject": {"kind": "inf_gradient", "steps": [3, 12, 33]},
    },
}
WORKLOAD = {
    "model_args": {"dropout": 0.1},
    "steps": 50,
    "sample_every": 4,
    "accumulate": 2,
    "clip_norm": 1.0,
    "schedule": {"name": "cosine", "warmup_steps": 7},
}


class Killed(BaseException):
    """What a signal is to a test."""


@pytest.fixture(autouse=True)
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fetch, that is every tenth step, leaves a checkpoint."""
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", float("inf"))


def kill_at(step: int) -> Callable[[int], None]:
    def progress(done: int) -> None:
        if done == step:
            raise Killed

    return progress


def bits(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("trace.parquet", "samples.parquet")]


def outcome(folder: Path, spec: RunSpec) -> tuple[Any, ...]:
    """What a summary says, but for how long it took."""
    return tuple(read_summary(folder / "summary.json", spec).model_dump(exclude={"seconds", "sha256"}).items())


@pytest.mark.parametrize("optimizer", [{"name": "adamw", "lr": 0.01}, {"name": "sgd", "lr": 0.1, "momentum": 0.9}])
@pytest.mark.parametrize("arm", ARMS)
def test_killed_again_and_again(make_spec: MakeSpec, tmp_path: Path, arm: str, optimizer: dict[str, Any]) -> None:
    spec = make_spec({**WORKLOAD, "optimizer": optimizer}, **ARMS[arm])
    train(spec, tmp_path / "undisturbed")
    killed = tmp_path / "killed"
    for step in sorted(random.Random(arm).sample(range(1, 50), 4)):
        torch.manual_seed(step)  # what another process's generator would hold
        with pytest.raises(Killed):
            train(spec, killed, kill_at(step))
        assert not (killed / "summary.json").exists()
    (killed / f".{checkpoint_path(spec, killed).name}.1234abcd.tmp.pt").write_bytes(b"cut short")
    train(spec, killed)
    assert bits(killed) == bits(tmp_path / "undisturbed")
    assert outcome(killed, spec) == outcome(tmp_path / "undisturbed", spec)
    assert sorted(path.name for path in killed.iterdir()) == ["samples.parquet", "summary.json", "trace.parquet"]


def test_it_really_goes_on(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec(WORKLOAD)
    with pytest.raises(Killed):
        train(spec, tmp_path, kill_at(29))
    done: list[int] = []
    train(spec, tmp_path, done.append)
    assert done == list(range(21, 51))


def test_a_checkpoint_of_another_spec_is_refused_by_name(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec, other = make_spec(WORKLOAD), make_spec(WORKLOAD, seed=1)
    with pytest.raises(Killed):
        train(other, tmp_path, kill_at(15))
    checkpoint_path(other, tmp_path).rename(checkpoint_path(spec, tmp_path))
    with pytest.raises(CheckpointError, match=r"checkpoint_.*belongs to another spec"):
        train(spec, tmp_path)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_checkpoint_is_refused_by_name(make_spec: MakeSpec, tmp_path: Path, damage: str) -> None:
    spec = make_spec(WORKLOAD)
    with pytest.raises(Killed):
        train(spec, tmp_path, kill_at(15))
    path = checkpoint_path(spec, tmp_path)
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    path.write_bytes({"cut": content[: len(content) // 2], "flip": content, "empty": b""}[damage])
    with pytest.raises(CheckpointError, match=r"checkpoint_.*no whole checkpoint"):
        train(spec, tmp_path)


def test_a_checkpoint_by_other_code_is_left_aside(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(WORKLOAD)
    with pytest.raises(Killed):
        train(spec, tmp_path, kill_at(15))
    monkeypatch.setattr(checkpoint, "written_by", lambda run: "other code")
    done: list[int] = []
    train(spec, tmp_path, done.append)
    assert done[0] == 1


def test_a_checkpoint_waits_for_its_interval_and_for_its_cost(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(checkpoint, "SHARE", 0.01)
    checkpoints = Checkpoints(prepare(make_spec(WORKLOAD)), tmp_path, interval=20.0)
    saved: list[float] = []

    def save(steps: int) -> None:
        saved.append(clock[0])
        clock[0] += 0.5  # half a second, so the next may come after fifty

    monkeypatch.setattr(checkpoints, "save", save)
    for second in range(100):
        clock[0] = max(clock[0], float(second))
        checkpoints.save_if_due(second)
    assert saved == [20.0, 71.0]
