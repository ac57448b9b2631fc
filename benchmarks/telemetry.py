"""What the telemetry costs: a ResNet-50 step with it and without it, and the time inside its own functions.

    python benchmarks/telemetry.py [rounds] [arm]

It is to stay under 2 % of the step. On a machine that others use too, the first of the two numbers scatters by more
than that; the second does not, but leaves out what the telemetry does to the caches.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from interleave import interleave, report

from halfscale.instruments import train
from halfscale.study.choose import choose_run

MEASURED = ("total_norm", "norm_and_largest")
"""The functions of the training step that exist for the telemetry alone."""


class NoTelemetry:
    """Takes every step in and keeps nothing."""

    def record(self, step: object) -> bool:
        return False


class Stopwatch:
    """Adds up the seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: object) -> Any:
            start = time.perf_counter()
            result = function(*args)
            self.seconds += time.perf_counter() - start
            return result

        return timed


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    arm = sys.argv[2] if len(sys.argv) > 2 else "fp16"
    spec = choose_run(["config/config.yaml"], "resnet50", arm, seed=0)
    monitored, bare = train.prepare(spec), train.prepare(spec)
    stopwatch = Stopwatch()
    on = {name: stopwatch.watch(getattr(train, name)) for name in MEASURED}
    off = {"total_norm": lambda gradients: None, "norm_and_largest": lambda gradients: (None, None)}
    record, fetch = stopwatch.watch(monitored.telemetry.record), stopwatch.watch(monitored.telemetry.fetch)
    monitored.telemetry.record = record  # type: ignore[method-assign]
    bare.telemetry = NoTelemetry()  # type: ignore[assignment]

    def step_with(number: int) -> None:
        for name, function in on.items():
            setattr(train, name, function)
        if train.take_step(monitored, number):
            fetch()

    def step_without(number: int) -> None:
        for name, function in off.items():
            setattr(train, name, function)
        train.take_step(bare, number)

    warmup = 3
    seconds = interleave({"telemetry off": step_without, "telemetry on": step_with}, rounds, warmup)
    report(f"resnet50, {arm}, one step", seconds)
    inside = stopwatch.seconds / (warmup + rounds)
    share = inside / statistics.mean(seconds["telemetry on"])
    print(f"  inside the telemetry {1e3 * inside:.2f} ms a step, {100 * share:.2f} % of it")


if __name__ == "__main__":
    main()
