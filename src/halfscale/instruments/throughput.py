"""The throughput instrument: all variants of a workload in one process, in randomised blocks.

A block times every variant once, in an order of its own, so that whatever else the machine does, and however warm it
grows, falls on all of them alike; a ratio is taken within blocks. Nothing waits for the device inside a turn.
"""

import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.errors import UserError
from halfscale.instruments.attained import measure_attained
from halfscale.instruments.clock import Clock, make_clock
from halfscale.instruments.count_flops import count_flops
from halfscale.instruments.describe import describe_environment
from halfscale.instruments.timed_step import Prepared, prepare_variant, settle
from halfscale.machine.devices import be_fast, has_native_bf16, has_native_fp16, has_precision
from halfscale.numerics.precision import DeviceType, choose_device
from halfscale.study.sources import instrument_digest
from halfscale.study.throughput import ThroughputSpec, Variant
from halfscale.study.timings import ThroughputRecord, Timed, write_steps, write_throughput
from halfscale.workloads.registry import build_data

STEADY = 0.02
"""Relative change of the median of WINDOW steps below which a warm-up is over."""

WINDOW = 5

LOADER_SHARE = 5
"""For as many steps on the fixed batch, one with the loader: its share needs fewer than a ratio does."""

LONGEST_WARMUP = 5
"""Times the least warm-up, after which timing begins, steady or not; the record says which."""


class TimingError(UserError, RuntimeError):
    """What was timed is not what its label says."""


def throughput(spec: ThroughputSpec, folder: Path, progress: Callable[[int], None] = lambda turns: None) -> None:
    """Time every variant of a workload and write folder/steps.parquet, then folder/throughput.json.

    Args:
        spec: what to time.
        folder: where the records go.
        progress: called after each turn (a variant's steps in a block) with the number of turns done.

    Raises:
        UnavailableError: a device is not to be had, or a precision not in effect.
        TimingError: a timed step was skipped.
        UserError: the model or the data cannot be built or trained.
    """
    started, code = time.perf_counter(), instrument_digest("halfscale.instruments.throughput", spec.model, spec.data)
    device = choose_device(spec.device)
    threads = spec.threads or len(os.sched_getaffinity(0))
    be_fast(threads)
    clock = make_clock(device)
    data = build_data(spec.data, spec.seed, spec.data_args)
    statuses = {variant.name: status_of(variant, spec, device) for variant in spec.variants}
    prepared = [prepare_variant(spec, each, data, device) for each in spec.variants if statuses[each.name] == "timed"]
    flops = {
        str(each.variant.batch_size): count_flops(each.model, each.fixed) for each in first_of_each_batch(prepared)
    }
    warmups = {each.variant.name: warm_up(each, clock, spec.warmup) for each in prepared}
    scales = {each.variant.name: settle(each) for each in prepared}
    steps = pd.DataFrame(list(take_blocks(spec, prepared, clock, progress)))
    timed = []
    for variant in spec.variants:
        each = next((each for each in prepared if each.variant == variant), None)
        warmup, steady = warmups.get(variant.name, (0, False))
        timed.append(
            Timed(
                variant=variant.name,
                status=statuses[variant.name],
                effective=each.effective if each else None,
                warmup=warmup,
                steady=steady,
                scale=scales.get(variant.name),
                skipped=skipped_of(each) if each else 0,
            )
        )
    precisions = [variant.precision for variant in spec.variants if statuses[variant.name] == "timed"]
    host_batch = data.batch(0, spec.variants[0].batch_size)
    record = ThroughputRecord(
        spec=spec,
        spec_hash=spec.hash,
        timed=timed,
        flops=flops,
        samples_per_target=host_batch.targets[0].numel(),
        attained=measure_attained(device, precisions, host_batch, clock),
        threads=threads,
        environment=describe_environment(device),
        code=code,
        seconds=time.perf_counter() - started,
        steps_sha256=write_steps(steps, spec, folder / "steps.parquet"),
    )
    write_throughput(record, folder / "throughput.json")


def status_of(variant: Variant, spec: ThroughputSpec, device: DeviceType) -> Any:
    """Return whether a variant is timed here, and if not why."""
    if not has_precision(device, variant.precision):
        return "unavailable"
    has_units = {"fp16": has_native_fp16, "bf16": has_native_bf16}.get(variant.precision, lambda device: True)
    return "timed" if has_units(device) or spec.emulated else "numerics only"


def first_of_each_batch(prepared: list[Prepared]) -> list[Prepared]:
    """Return one eager variant of each batch size."""
    firsts: dict[int, Prepared] = {}
    for each in prepared:
        if not each.variant.compile:
            firsts.setdefault(each.variant.batch_size, each)
    return list(firsts.values())


def warm_up(prepared: Prepared, clock: Clock, least: int) -> tuple[int, bool]:
    """Step until the median of five steps changes by less than 2 % and no step overflows; return steps and whether so."""
    prepared.select()
    seconds: list[float] = []
    while len(seconds) < LONGEST_WARMUP * least:
        before = prepared.overflows.item()
        marks = prepared.step(clock)
        clock.wait()
        seconds.append(clock.seconds(marks.start, marks.optimizer))
        clean = prepared.overflows.item() == before
        if len(seconds) >= max(least, 2 * WINDOW) and clean and is_steady(seconds):
            return len(seconds), True
    return len(seconds), False


def is_steady(seconds: list[float]) -> bool:
    """Return whether the medians of the last two windows of steps differ by less than 2 %."""
    last, before = statistics.median(seconds[-WINDOW:]), statistics.median(seconds[-2 * WINDOW : -WINDOW])
    return abs(last / before - 1) < STEADY


def take_blocks(
    spec: ThroughputSpec, prepared: list[Prepared], clock: Clock, progress: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    """Yield every timed step of every block, as rows of halfscale.study.timings.STEPS."""
    order = random.Random(spec.seed)
    turns = 0
    for block in range(spec.blocks):
        with no_garbage_collection():
            for position, each in enumerate(order.sample(prepared, len(prepared))):
                for loader, steps in ((False, spec.steps), (True, max(1, spec.steps // LOADER_SHARE))):
                    for row in take_turn(each, clock, steps, loader=loader):
                        yield {"block": block, "position": position, "variant": each.variant.name, **row}
                turns += 1
                progress(turns)


def take_turn(prepared: Prepared, clock: Clock, steps: int, *, loader: bool) -> list[dict[str, Any]]:
    """Time a variant's steps, on the fixed batch or on the loader's; rows of STEPS from `loader` on."""
    prepared.select()
    prepared.step(clock)  # the caches are this variant's again
    clock.wait()
    marks = []
    begun = time.perf_counter()
    for _ in range(steps):
        drawn = clock.mark()
        batch = prepared.next_batch() if loader else None
        marks.append((drawn, prepared.step(clock, batch)))
    clock.wait()
    wall = (time.perf_counter() - begun) / steps
    rows = []
    for step, (drawn, phases) in enumerate(marks):
        forward, backward, optimizer = (clock.seconds(start, end) for start, end in pairwise(phases))
        whole = clock.seconds(drawn if loader else phases.start, phases.optimizer)
        rows.append(
            {
                "loader": loader,
                "step": step,
                "seconds": whole,
                "forward": forward,
                "backward": backward,
                "optimizer": optimizer,
                "wall": wall,
            }
        )
    return rows


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect garbage now, and not while a block is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def skipped_of(prepared: Prepared) -> int:
    """Return the skipped steps of the blocks: none.

    Raises:
        TimingError: there is one. A skipped step is cheaper, and its time not what its label says.
    """
    skipped = int(prepared.overflows.item())
    if skipped:
        raise TimingError(
            f"variant {prepared.variant.name}: {skipped} timed steps overflowed at a settled scale, and a skipped step "
            "is no measure of a step; is the data's gradient bounded?"
        )
    return skipped
