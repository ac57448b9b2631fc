"""Checkpoints of a training run: what it takes to go on as if nothing had happened.

A checkpoint lies beside the run's records, under a name that carries the spec's hash and that no workflow looks for,
and is deleted when the run has ended. Data have no state: batches depend on the seed and the index alone.
"""

import hashlib
import io
import time
from pathlib import Path
from typing import Any

import torch

from halfscale.errors import UserError
from halfscale.instruments.run import Run
from halfscale.machine.devices import device_name
from halfscale.study.spec import RunSpec
from halfscale.study.whole import whole_file

INTERVAL = 40.0
"""Seconds before the first checkpoint and between two, at the least: a run that is over sooner is as soon run again."""

SHARE = 0.01
"""Share of a run's time that its checkpoints may take; where one takes long the next comes later."""


DIGEST_SIZE = hashlib.sha256().digest_size


class CheckpointError(UserError, ValueError):
    """A checkpoint that does not belong to the run, or is not whole; the message names the file."""


class Checkpoints:
    """The checkpoint of one run: loaded at its start, saved now and then, deleted at its end."""

    def __init__(self, run: Run, folder: Path, interval: float | None = None) -> None:
        self.run = run
        self.path = checkpoint_path(run.spec, folder)
        self.interval = INTERVAL if interval is None else interval
        self.due = time.monotonic() + self.interval

    def load(self) -> int:
        """Bring the run to where its checkpoint left it and return the steps done; 0 where there is none.

        A checkpoint that other code or another torch wrote is left aside: going on from it would give bits that
        neither of the two would give alone.

        Raises:
            CheckpointError: the file belongs to another spec, or is not whole.
        """
        if not self.path.exists():
            return 0
        state = read(self.path)
        run = self.run
        if state["spec_hash"] != run.spec.hash:
            raise CheckpointError(f"{self.path}: belongs to another spec; delete it to start anew")
        if state["written_by"] != written_by(run):
            return 0
        run.model.load_state_dict(state["model"])
        run.optimizer.load_state_dict(state["optimizer"])
        run.schedule.load_state_dict(state["schedule"])
        run.scaler.load_state_dict(state["scaler"])
        run.telemetry.load_state_dict(state["telemetry"])
        run.updates = state["updates"]
        set_random_state(run, state["random"])
        return state["steps"]

    def save_if_due(self, steps: int) -> None:
        """Save the run after this many steps, all of them fetched, if the last checkpoint is old enough."""
        if time.monotonic() < self.due:
            return
        started = time.monotonic()
        self.save(steps)
        took = time.monotonic() - started
        self.due = time.monotonic() + max(self.interval, took / SHARE)

    def save(self, steps: int) -> None:
        """Save the run after this many steps, all of them fetched."""
        run = self.run
        state = {
            "spec_hash": run.spec.hash,
            "written_by": written_by(run),
            "steps": steps,
            "updates": run.updates,
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "schedule": run.schedule.state_dict(),
            "scaler": run.scaler.state_dict(),
            "telemetry": run.telemetry.state_dict(),
            "random": random_state(run),
        }
        write(state, self.path)

    def delete(self) -> None:
        """Remove the checkpoint of a run that has ended, and what a kill in the middle of writing one has left."""
        for path in [self.path, *self.path.parent.glob(f".{self.path.name}.*")]:
            path.unlink(missing_ok=True)


def write(state: dict[str, Any], path: Path) -> None:
    """Write a state, led by its own SHA-256: torch's file format does not notice a flipped bit."""
    content = io.BytesIO()
    torch.save(state, content)
    with whole_file(path) as temporary, temporary.open("wb") as file:
        file.write(hashlib.sha256(content.getbuffer()).digest())
        file.write(content.getbuffer())


def read(path: Path) -> dict[str, Any]:
    """Read a state back, its tensors on the CPU.

    Raises:
        CheckpointError: the file is not what was written.
    """
    content = path.read_bytes()
    digest, content = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
    if hashlib.sha256(content).digest() != digest:
        raise CheckpointError(f"{path}: is no whole checkpoint; delete it to start anew")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def checkpoint_path(spec: RunSpec, folder: Path) -> Path:
    """Return where a run's checkpoint lies."""
    return folder / f"checkpoint_{spec.hash[:16]}.pt"


def written_by(run: Run) -> str:
    """Return what decides the bits that follow, besides the spec: the code, torch's version, and the device."""
    return f"{run.code} {torch.__version__} {run.effective.device} {device_name(run.effective.device)}"


def random_state(run: Run) -> dict[str, Any]:
    """Return the state of torch's generators, which dropout draws from."""
    state = {"cpu": torch.get_rng_state()}
    if run.effective.device == "cuda":
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(run: Run, state: dict[str, Any]) -> None:
    """Set the state of torch's generators."""
    torch.set_rng_state(state["cpu"])
    if run.effective.device == "cuda":
        torch.cuda.set_rng_state(state["cuda"])
