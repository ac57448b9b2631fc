"""Measure commands on ever larger studies: seconds, peak memory, and how both grow."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """What one command took."""

    seconds: float
    cpu_seconds: float
    """Of user and system: what the command takes however busy the machine is."""
    megabytes: float
    """Peak resident memory of the largest of its processes."""


def measure(command: Sequence[str], folder: Path) -> Cost:
    """Run a command in a folder, its output thrown away.

    Raises:
        SystemExit: it failed.
    """
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.execv(command[0], command)
    _, status, usage = os.wait4(child, 0)  # the usage of this child alone; getrusage has that of the largest so far
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def print_row(runs: int, what: str, cost: Cost) -> None:
    print(
        f"{runs:7,} runs  {what:16} {cost.seconds:7.1f} s  {cost.cpu_seconds:7.1f} s of CPU  {cost.megabytes:6.0f} MB",
        flush=True,
    )


def print_growth(what: str, costs: dict[int, Cost]) -> None:
    """Print what a thousand more runs cost, over the lower and over the upper half of the sizes measured."""
    sizes = sorted(costs)
    middle = sizes[len(sizes) // 2]
    for low, high in [(sizes[0], middle), (middle, sizes[-1])]:
        if low < high:
            thousands = (high - low) / 1000
            seconds = (costs[high].cpu_seconds - costs[low].cpu_seconds) / thousands
            megabytes = (costs[high].megabytes - costs[low].megabytes) / thousands
            print(
                f"{what}, from {low:,} to {high:,} runs: {seconds:.2f} s of CPU and {megabytes:.0f} MB per 1,000 more"
            )


def print_load() -> None:
    """Print how busy the machine is, without which no time means anything."""
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
