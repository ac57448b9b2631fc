"""Compare step times as ratios inside one run: the variants take turns, step by step, so that whatever else the
machine does falls on all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping

Variant = Callable[[int], object]


def interleave(variants: Mapping[str, Variant], rounds: int, warmup: int = 3) -> dict[str, list[float]]:
    """Return the seconds of each variant's steps, warm-up left out. A variant is called with its step's number."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for number in range(warmup + rounds):
        for name in names if number % 2 == 0 else reversed(names):
            start = time.perf_counter()
            variants[name](number)
            elapsed = time.perf_counter() - start
            if number >= warmup:
                seconds[name].append(elapsed)
    return seconds


def report(title: str, seconds: Mapping[str, list[float]]) -> None:
    """Print median milliseconds and the median of the rounds' ratios to the first variant, with their quartiles."""
    reference = next(iter(seconds.values()))
    print(title)
    for name, times in seconds.items():
        ratios = [ours / theirs for ours, theirs in zip(times, reference, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"  {name:14} {1e3 * statistics.median(times):8.1f} ms   ratio {middle:6.3f}  (quartiles {low:.3f} to {high:.3f})"
        )
