"""Measure the memory of a training step for real, in a fresh process, so that no earlier one's state takes part.

On a CPU it is the process's high-water mark (VmHWM) less what it held before the model was made. On CUDA it is the
allocator's peaks: requested (what the step needs), allocated (rounded up) and reserved (with fragmentation).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy

from halfscale.errors import UserError
from halfscale.instruments.setup import make_optimizer
from halfscale.instruments.trace_step import make_batch
from halfscale.numerics.precision import DeviceType, autocast, set_tf32
from halfscale.study.step import Predicted, Step
from halfscale.workloads.registry import build_model

STEPS = 2
"""The first makes the optimizer's state; the second is the one that is predicted."""

RETURN_MEMORY = "glibc.malloc.mmap_threshold=65536:glibc.malloc.trim_threshold=65536"
"""Has glibc give what is freed back to the system at once: else its high-water mark is that of glibc's caches."""


class MeasurementError(UserError, RuntimeError):
    """A process that measured memory and did not end well."""


class Peaks(NamedTuple):
    """What a step took at most, bytes."""

    peak: int
    allocated: int | None = None
    reserved: int | None = None
    retries: int | None = None


def measure_memory(step: Step, precision: Predicted, device: DeviceType, batch_size: int) -> Peaks | None:
    """Run a step in a fresh process and return what it took; None if the device's memory was not enough.

    Raises:
        MeasurementError: the process failed otherwise.
    """
    bare = step.model_dump(include=set(Step.model_fields))
    task = {"step": bare, "precision": precision, "device": device, "batch_size": batch_size}
    command = [sys.executable, "-m", "halfscale.instruments.measure_memory"]
    environment = {**os.environ, "GLIBC_TUNABLES": RETURN_MEMORY}
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True, env=environment)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"ended with {done.returncode}"]
        raise MeasurementError(f"{step.name}: {precision} at batch size {batch_size} on {device}: {last[0]}")
    found = json.loads(done.stdout)
    return None if found is None else Peaks(**found)


def take_steps(step: Step, precision: Predicted, device: DeviceType, batch_size: int) -> None:
    """Make the model and take its steps.

    FP32 is strict, as where it is trained and timed: CUDA's convolutions would else use TF32, and other workspaces.
    """
    set_tf32(False)
    with torch.device(device):
        model = build_model(step.model, step.model_args)
        inputs, targets = make_batch(step, batch_size)
    optimizer = make_optimizer(step.optimizer, model)
    for _ in range(STEPS):
        with autocast(precision, device):
            logits = model(inputs)
        loss = cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
        del logits
        loss.backward()
        del loss
        optimizer.step()
        optimizer.zero_grad()


OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED", "unable to find an engine")
"""How CUDA's libraries say so: torch's allocator, cuBLAS, and cuDNN, which tries all its ways and finds none to fit."""


def load_what_a_step_needs(device: DeviceType) -> None:
    """Take a step of a few weights: what torch loads at a first backward pass and update is no memory of the model's.

    On CUDA that is cuBLAS's workspace too, which comes from torch's allocator.
    """
    layer = torch.nn.Linear(8, 8, device=device)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(8, 8, device=device)).sum().backward()
    optimizer.step()


def measure_on_cpu(run: Callable[[], None]) -> Peaks:
    """Return by how much a call raised this process's high-water mark."""
    before = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark to what is held now
    run()
    return Peaks(status_bytes("VmHWM") - before)


def status_bytes(name: str) -> int:
    """Return one of the sizes in /proc/self/status, bytes.

    Raises:
        MeasurementError: the system has none.
    """
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise MeasurementError(f"{name} is not to be had: memory of a CPU process is measured on Linux only")


def measure_on_cuda(
    run: Callable[[], None],
    statistics: Callable[[], Mapping[str, Any]] = torch.cuda.memory_stats,
    reset: Callable[[], None] = torch.cuda.reset_peak_memory_stats,
) -> Peaks | None:
    """Return by how much a call raised the allocator's peaks; None if the device's memory was not enough.

    What cuDNN takes to work in is among them, and in no prediction.

    Args:
        run: takes the steps.
        statistics: gives the allocator's figures, by the names that torch.cuda.memory_stats documents.
        reset: sets its peaks to what is held now.
    """
    reset()
    before = statistics()
    try:
        run()
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        if any(phrase in str(error) for phrase in OUT_OF_MEMORY):
            return None
        raise
    found = statistics()
    return Peaks(
        peak=found["requested_bytes.all.peak"] - before["requested_bytes.all.current"],
        allocated=found["allocated_bytes.all.peak"] - before["allocated_bytes.all.current"],
        reserved=found["reserved_bytes.all.peak"],
        retries=found["num_alloc_retries"],
    )


def main() -> None:
    """Measure what standard input asks for, and print it."""
    task = json.load(sys.stdin)
    step = Step.model_validate(task.pop("step"))

    def run() -> None:
        take_steps(step, **task)

    load_what_a_step_needs(task["device"])
    measured = measure_on_cuda(run) if task["device"] == "cuda" else measure_on_cpu(run)
    json.dump(measured and measured._asdict(), sys.stdout)


if __name__ == "__main__":
    main()
