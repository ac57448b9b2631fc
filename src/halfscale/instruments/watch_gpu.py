"""Watch a GPU while it is timed: its clock, power and temperature, and whether something holds it back.

nvidia-smi looks every second in a process of its own, so that nothing in a block waits for it.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import torch

from halfscale.numerics.precision import DeviceType
from halfscale.study.timings import GpuLook

QUERY = "clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active"

HELD_BACK = 0xEC
"""Bits of clocks_event_reasons: power cap 0x4, hardware slowdown 0x8, heat 0x20 and 0x40, power brake 0x80 (nvml.h)."""


def watch_command() -> list[str]:
    """Return the command that prints a line of QUERY every second, about the GPU that torch uses."""
    uuid = torch.cuda.get_device_properties().uuid
    options = [f"--query-gpu={QUERY}", "--format=csv,noheader,nounits", "--loop-ms=1000"]
    return ["nvidia-smi", f"--id=GPU-{uuid}", *options]


@contextmanager
def watched_gpu(device: DeviceType, command: Sequence[str] | None = None) -> Iterator[list[GpuLook]]:
    """Yield a list that holds what was seen when the block ends; it stays empty on a CPU, and without nvidia-smi."""
    looks: list[GpuLook] = []
    if device == "cpu":
        yield looks
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:
        watcher = start(command or watch_command(), lines)
        try:
            yield looks
        finally:
            if watcher is not None:
                watcher.terminate()
                watcher.wait()
        lines.seek(0)
        looks += filter(None, map(parse_look, lines))


def start(command: Sequence[str], lines: IO[str]) -> subprocess.Popen[bytes] | None:
    """Start the watcher; None where there is no such program."""
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=lines, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return None


def parse_look(line: str) -> GpuLook | None:
    """Return what a line says; None for one that was cut short, or where the GPU does not tell."""
    try:
        clock, power, temperature, reasons = line.split(",")
        return GpuLook(
            sm_clock=float(clock),
            power=float(power),
            temperature=float(temperature),
            held_back=bool(int(reasons, 16) & HELD_BACK),
        )
    except ValueError:
        return None
