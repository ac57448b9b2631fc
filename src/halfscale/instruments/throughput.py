"""The throughput instrument: all variants of a workload in one process, in randomised blocks.

A block times every variant once, in an order of its own, so that whatever else the machine does, and however warm it
grows, falls on all of them alike; a ratio is taken within blocks. Nothing of ours waits for the device inside a turn;
GradScaler does once a step, where it asks whether to skip, and a batch of the loader's is copied from ordinary memory.
"""

import gc
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.errors import UserError
from halfscale.instruments.attained import measure_attained
from halfscale.instruments.clock import Clock, make_clock
from halfscale.instruments.count_flops import count_flops
from halfscale.instruments.data_sheet import data_sheet
from halfscale.instruments.describe import describe_environment
from halfscale.instruments.forward import forward
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.timed_step import Prepared, allow_compilations, prepare_variant, settle
from halfscale.instruments.trace_step import told
from halfscale.instruments.watch_gpu import watched_gpu
from halfscale.machine.devices import be_fast, has_native, has_precision
from halfscale.numerics.precision import DeviceType, choose_device
from halfscale.study.sealed import write_sealed
from halfscale.study.sources import instrument_digest
from halfscale.study.throughput import ThroughputSpec, Variant
from halfscale.study.timings import Status, ThroughputRecord, Timed, write_steps
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
        TimingError: none of the variants can be timed here, or a timed step was skipped.
        UserError: the model or the data cannot be built or trained.
    """
    started, code = time.perf_counter(), instrument_digest("halfscale.instruments.throughput", spec.model, spec.data)
    device = choose_device(spec.device)
    threads = spec.threads or len(os.sched_getaffinity(0))
    be_fast(threads)
    clock = make_clock(device)
    data = build_data(spec.data, spec.seed, spec.data_args)
    compiled = sum(variant.compile for variant in spec.variants)
    if compiled:
        allow_compilations(compiled)
    statuses = {variant: status_of(variant, spec, device) for variant in spec.variants}
    with told_of(spec.workload):
        prepared = {
            variant: prepare_variant(spec, variant, data, device)
            for variant, status in statuses.items()
            if status == "timed"
        }
    if not prepared:
        raise TimingError(
            f"workload {spec.workload!r}: none of its variants can be timed on this device ({device}); allowed: levels "
            "with fp32, or emulated: true"
        )
    sizes = {variant.batch_size: each for variant, each in prepared.items()}
    with told_of(spec.workload):
        for each in sizes.values():
            # A batch of the host, so that its targets can be held against the model's classes before a GPU stumbles.
            forward(each.eager, each.data.batch(0, each.variant.batch_size), each.effective, each.variant.memory_format)
        flops = {str(size): count_flops(each.eager, each.fixed) for size, each in sizes.items()}
        warmups = {variant: warm_up(each, clock, spec.warmup) for variant, each in prepared.items()}
    scales = {variant: settle(each) for variant, each in prepared.items()}
    with watched_gpu(device) as looks, told_of(spec.workload):
        steps = pd.DataFrame(list(take_blocks(spec, list(prepared.values()), clock, progress)))
    refuse_skipped(prepared.values())
    steps_sha256 = write_steps(steps, spec, folder / "steps.parquet")  # before anything else can fail
    timed = []
    for variant, status in statuses.items():
        warmup, steady = warmups.get(variant, (0, False))
        timed.append(
            Timed(
                variant=variant.name,
                status=status,
                effective=prepared[variant].effective if variant in prepared else None,
                warmup=warmup,
                steady=steady,
                scale=scales.get(variant),
            )
        )
    host_batch = data.batch(0, spec.variants[0].batch_size)
    environment = describe_environment(device)
    record = ThroughputRecord(
        spec=spec,
        spec_hash=spec.hash,
        timed=timed,
        flops={size: math.nan if count is None else count for size, count in flops.items()},
        targets_per_sample=host_batch.targets[0].numel(),
        attained=measure_attained(device, [variant.precision for variant in prepared], host_batch, clock),
        sheet=data_sheet(spec, prepared, environment.device, host_batch),
        gpu=looks,
        threads=threads,
        environment=environment,
        code=code,
        seconds=time.perf_counter() - started,
        steps_sha256=steps_sha256,
    )
    write_sealed(record, folder / "throughput.json")


@contextmanager
def told_of(workload: str) -> Iterator[None]:
    """Name the workload in whatever its model and data raise.

    Raises:
        TrainingError: they raised; an error that is told with a traceback keeps it.
    """
    try:
        yield
    except UserError as error:
        raise TrainingError(f"workload {workload!r}: {error}") from error.__cause__
    except Exception as error:  # whatever a model raises beyond its forward pass
        raise TrainingError(f"workload {workload!r}: {told(error)}") from error


def status_of(variant: Variant, spec: ThroughputSpec, device: DeviceType) -> Status:
    """Return whether a variant is timed here, and if not why."""
    if not has_precision(device, variant.precision):
        return "unavailable"
    return "timed" if has_native(device, variant.precision) or spec.emulated else "numerics only"


def warm_up(prepared: Prepared, clock: Clock, least: int) -> tuple[int, bool]:
    """Step until the median of five steps changes by less than 2 % and no step overflows; return steps and whether so."""
    prepared.select()
    seconds: list[float] = []
    while len(seconds) < LONGEST_WARMUP * least:
        before = prepared.overflows.item()
        # The first batch comes from the host, where its targets can be held against the model's classes.
        marks = prepared.step(clock, None if seconds else prepared.next_batch())
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
                each.select()
                each.renew(spec)
                each.step(clock)  # the caches are this variant's again
                for loader, steps in ((False, spec.steps), (True, max(1, spec.steps // LOADER_SHARE))):
                    for row in take_turn(each, clock, steps, loader=loader):
                        yield {"block": block, "position": position, "variant": each.variant.name, **row}
                turns += 1
                progress(turns)


def take_turn(prepared: Prepared, clock: Clock, steps: int, *, loader: bool) -> list[dict[str, Any]]:
    """Time a variant's steps, on the fixed batch or on the loader's; rows of STEPS from `loader` on."""
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


def refuse_skipped(prepared: Iterable[Prepared]) -> None:
    """Check that no timed step was skipped: such a step is cheaper, and its time not what its label says.

    Raises:
        TimingError: one was.
    """
    for each in prepared:
        skipped = int(each.overflows.item())
        if skipped:
            raise TimingError(
                f"variant {each.variant.name}: {skipped} timed steps overflowed at a settled scale, and a skipped step "
                "is no measure of a step; is the data's gradient bounded?"
            )
