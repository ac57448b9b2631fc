"""What the device attains on the simplest work: a square matrix product, a copy, a transfer."""

from collections.abc import Callable, Iterable
from functools import partial

import torch

from halfscale.instruments.clock import Clock
from halfscale.numerics.precision import DeviceType, Precision, set_tf32
from halfscale.study.timings import Attained
from halfscale.workloads.batch import Batch

DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}

SMALLEST_GEMM, LARGEST_GEMM = 128, 8192
"""Rows and columns of the smallest and the largest product that is tried."""

LONG_ENOUGH = 0.01
"""Seconds of a product from which its rate is the device's and no longer that of the call. Sizes double until then: a
CPU without units for a format multiplies it a hundred times slower, and the largest product would take an hour."""

COPY_BYTES: dict[DeviceType, int] = {"cpu": 2**28, "cuda": 2**31}
"""Beyond any cache."""

REPEATS = 5
"""Of each piece of work, after one that does not count."""


def measure_attained(device: DeviceType, precisions: Iterable[Precision], batch: Batch, clock: Clock) -> Attained:
    """Return what the device attains: the fastest of a few repeats, which is what it can do when nothing disturbs it.

    Args:
        device: the device.
        precisions: those that its matrix units offer and that are asked about.
        batch: a batch on the host, whose inputs are moved to the device.
        clock: the device's.
    """
    return Attained(
        gemm={precision: gemm_rate(device, precision, clock) for precision in dict.fromkeys(precisions)},
        copy_bandwidth=copy_bandwidth(device, clock),
        transfer=transfer_seconds(batch, clock) if device == "cuda" else {},
    )


def gemm_rate(device: DeviceType, precision: Precision, clock: Clock) -> float:
    """Return FLOP/s of a square product, 2 n^3 FLOP each, as large as it takes to be long enough."""
    set_tf32(precision == "tf32")
    size = SMALLEST_GEMM
    while True:
        left, right = torch.randn(2, size, size, device=device).to(DTYPES[precision])
        seconds = least_seconds(partial(torch.mm, left, right), clock)
        if seconds >= LONG_ENOUGH or size == LARGEST_GEMM:
            return 2 * size**3 / seconds
        size *= 2


def copy_bandwidth(device: DeviceType, clock: Clock) -> float:
    """Return bytes a second of a copy, read and written."""
    source = torch.zeros(COPY_BYTES[device] // 4, device=device)
    target = torch.empty_like(source)
    return 2 * COPY_BYTES[device] / least_seconds(partial(target.copy_, source), clock)


def transfer_seconds(batch: Batch, clock: Clock, device: str = "cuda") -> dict[str, float]:
    """Return seconds to move a batch's inputs from pinned memory to the device, by format; tokens have one only."""
    formats = ("fp32", "fp16", "bf16") if batch.inputs.is_floating_point() else ("int64",)
    seconds = {}
    for name in formats:
        inputs = batch.inputs.to(DTYPES[name]) if name in DTYPES else batch.inputs
        if device == "cuda":
            inputs = inputs.pin_memory()
        target = torch.empty_like(inputs, device=device)
        seconds[name] = least_seconds(partial(target.copy_, inputs, non_blocking=True), clock)
    return seconds


def least_seconds(work: Callable[[], object], clock: Clock) -> float:
    """Return the seconds of a piece of work, of its fastest repeat."""
    marks = []
    for _ in range(REPEATS + 1):
        start = clock.mark()
        work()
        marks.append((start, clock.mark()))
    clock.wait()
    return min(clock.seconds(start, end) for start, end in marks[1:])
