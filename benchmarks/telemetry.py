"""What the telemetry costs: a ResNet-50 step with it and without it, and the time inside its own functions.

    python benchmarks/telemetry.py [rounds] [arm] [image size]

Its milliseconds are those of one pass over the gradients, whatever the step takes: at 32x32 a step is as short as
ResNet-50's can be, and the share as large; with 224x224 it is that of a real training. On a machine that others use too, the difference
of the two steps scatters by more than that; the time inside does not, but leaves out what the telemetry does to the caches.
"""

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from interleave import interleave, report

from halfscale.instruments import train
from halfscale.study.choose import choose_run

NORMS = ("norms_of", "norms_and_largest", "total_norm")
"""The functions of the training step that exist for the telemetry alone, in its module."""

SAMPLED = ("see_logits", "see_gradient", "see_weights", "finish", "sketch.of")
"""Those of the sampler; the sketch is a part of see_weights."""


class Nothing:
    """Stands in for the telemetry and the sampler: takes every step in and keeps nothing."""

    def record(self, step: object) -> bool:
        return False

    def due(self, step: int) -> bool:
        return False


class Stopwatch:
    """Adds up the seconds spent in some functions, and how often each was called."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    def watch(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: object) -> Any:
            start = time.perf_counter()
            result = function(*args)
            self.seconds[name] += time.perf_counter() - start
            self.calls[name] += 1
            return result

        return timed

    def watch_method(self, owner: object, name: str) -> None:
        """Watch a method, given as a path such as sketch.of."""
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, last, self.watch(name, getattr(owner, last)))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    arm = sys.argv[2] if len(sys.argv) > 2 else "fp16"
    size = int(sys.argv[3]) if len(sys.argv) > 3 else 32
    spec = choose_run(["config/config.yaml"], "resnet50", arm, seed=None)
    spec = spec.model_copy(update={"data_args": {"image_size": size}})
    monitored, bare = train.prepare(spec), train.prepare(spec)
    stopwatch = Stopwatch()
    on = {name: stopwatch.watch(name, getattr(train, name)) for name in NORMS}
    off = dict.fromkeys(NORMS, lambda gradients: None)
    for name in ("record", "fetch"):
        stopwatch.watch_method(monitored.telemetry, name)
    for name in SAMPLED:
        stopwatch.watch_method(monitored.sampler, name)
    bare.telemetry = bare.sampler = Nothing()  # type: ignore[assignment]

    def step_with(number: int) -> None:
        for name, function in on.items():
            setattr(train, name, function)
        if train.take_step(monitored, number):
            monitored.telemetry.fetch()

    def step_without(number: int) -> None:
        for name, function in off.items():
            setattr(train, name, function)
        train.take_step(bare, number)

    warmup = 3
    seconds = interleave({"telemetry off": step_without, "telemetry on": step_with}, rounds, warmup)
    report(f"resnet50, {arm}, {size}x{size}, one step", seconds)
    step = statistics.mean(seconds["telemetry on"])
    print("  inside the telemetry          ms a call    % of a step")
    for name in (*NORMS, "record", "fetch", *SAMPLED):
        calls = stopwatch.calls[name]
        print(
            f"  {name:26} {1e3 * stopwatch.seconds[name] / max(1, calls):12.2f} {share_of(name, stopwatch, step):14.3f}"
        )
    sampled = [name for name in SAMPLED if name != "sketch.of"]
    every = sum(share_of(name, stopwatch, step) for name in (*NORMS, "record", "fetch"))
    print(f"  on every step {every:.2f} %, sampled {sum(share_of(name, stopwatch, step) for name in sampled):.2f} %")


def share_of(name: str, stopwatch: Stopwatch, step: float) -> float:
    """Return the share of a step's time that a function takes, in percent, over all steps taken."""
    steps = stopwatch.calls["record"]
    return 100 * stopwatch.seconds[name] / (steps * step)


if __name__ == "__main__":
    main()
