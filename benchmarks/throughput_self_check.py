"""Does the throughput instrument measure what it says? Two checks of it by itself.

    python benchmarks/throughput_self_check.py [blocks] [steps]

A/A: two variants that are the same. The interval of their ratio is to hold 1, and on a quiet machine to be narrower
than 3 %. Planted: one of the two works 10 % longer. The interval is to leave 1 out. It lies at 1.1 on one core; on two a
little higher, for one of them sleeps while the other works longer, and has to wake up again. What is not so is told, and the
exit code is 1.
"""

import os
import sys
import time
from typing import Any

import pandas as pd

from halfscale.analysis.statistics import Median, median_with_interval
from halfscale.instruments.clock import HostClock
from halfscale.instruments.throughput import take_blocks, warm_up
from halfscale.instruments.timed_step import Marks, Prepared, prepare_variant
from halfscale.machine.devices import be_fast
from halfscale.study.choose import choose_throughput
from halfscale.study.throughput import ThroughputSpec, Variant
from halfscale.workloads.registry import build_data

PLANTED = 1.10

WIDEST = 0.03
"""Width of the interval of two that are the same, on a quiet machine."""


class Labelled(Variant):
    """A variant with a label of its own, so that the same one can stand in a block twice."""

    label: str

    @property
    def name(self) -> str:
        return self.label


class Slower(Prepared):
    """A variant whose optimizer takes a tenth of the whole step longer."""

    def step(self, clock: Any, batch: Any = None) -> Marks:
        marks = super().step(clock, batch)
        until = time.perf_counter() + (PLANTED - 1) * clock.seconds(marks.start, marks.optimizer)
        while time.perf_counter() < until:
            pass
        return marks._replace(optimizer=clock.mark())


def twin(spec: ThroughputSpec, label: str, kind: type[Prepared] = Prepared) -> Prepared:
    """Return the spec's first variant under another name."""
    prepared = prepare_variant(spec, spec.variants[0], build_data(spec.data, spec.seed, spec.data_args), "cpu")
    prepared.variant = Labelled(**spec.variants[0].model_dump(), label=label)
    return kind(**vars(prepared))


def measure(title: str, spec: ThroughputSpec, second: type[Prepared]) -> Median:
    """Time the two, print the ratio and return it."""
    pair, clock = [twin(spec, "first"), twin(spec, "second", second)], HostClock()
    for each in pair:
        warm_up(each, clock, spec.warmup)
    steps = pd.DataFrame(list(take_blocks(spec, pair, clock, lambda turns: None)))
    blocks = steps[~steps["loader"]].groupby(["variant", "block"])["seconds"].median()
    ratio = median_with_interval(blocks["second"] / blocks["first"])
    print(
        f"{title}: {ratio.median:.4f}, 95 % interval {ratio.low:.4f} to {ratio.high:.4f}, width {ratio.high - ratio.low:.4f}"
    )
    return ratio


def faults(same: Median, planted: Median) -> list[str]:
    """Return what the two ratios are not; an interval that there is not is none of it either."""
    found = []
    if not same.low <= 1 <= same.high:
        found.append("A/A: the interval does not hold 1")
    if not same.high - same.low < WIDEST:
        found.append(f"A/A: the interval is not narrower than {WIDEST:.0%}; is this machine quiet?")
    if not planted.low > 1:
        found.append(f"planted {PLANTED}: not found, for the interval does not lie above 1")
    return found


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    chosen = choose_throughput(["config/config.yaml"], "transformer")
    spec = chosen.model_copy(update={"blocks": blocks, "steps": steps})
    be_fast(spec.threads or len(os.sched_getaffinity(0)))
    same = measure("A/A", spec, Prepared)
    planted = measure(f"planted {PLANTED}", spec, Slower)
    if found := faults(same, planted):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
