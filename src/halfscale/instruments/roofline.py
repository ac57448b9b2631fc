"""The roofline instrument: predict a training step's time on hardware that is not here, from its FLOP and bytes.

Each operation takes the larger of FLOP / peak and bytes / bandwidth (Williams et al. 2009, doi 10.1145/1498765.1498785).
It is a bound, not a forecast: launches, caches and fusion are left out, and so is the scaler's look at the gradients.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from halfscale.errors import UserError
from halfscale.instruments.trace_step import Operation, trace_step
from halfscale.machine.peaks import DEVICES, Device
from halfscale.study.arm import Precision
from halfscale.study.predictions import Roof, RooflineRecord
from halfscale.study.roofline import RooflineSpec
from halfscale.study.sealed import write_sealed
from halfscale.study.sources import instrument_digest
from halfscale.study.step import Predicted

TRACED: dict[Precision, Predicted] = {"fp32": "fp32", "tf32": "fp32", "bf16": "bf16", "fp16": "fp16"}
"""TF32 reads and writes what FP32 does."""


class RooflineError(UserError, RuntimeError):
    """A step whose time cannot be bounded."""


def roofline(spec: RooflineSpec, folder: Path) -> RooflineRecord:
    """Predict one case on every device of the table that has the precision, and write folder/roofline.json.

    Raises:
        RooflineError: one of the step's operations has no FLOP formula.
        TrainingError: the step cannot be traced.
    """
    started = time.perf_counter()
    case = spec.case
    code = instrument_digest("halfscale.instruments.roofline", case.model, None)
    traces = {
        traced: trace_step(case, traced, "cuda", case.batch_size)
        for traced in dict.fromkeys(TRACED[precision] for precision in case.precisions)
    }
    for trace in traces.values():
        if trace.uncounted:
            raise RooflineError(
                f"{case.name}: {trace.uncounted[0]} has no formula for its FLOP, so that its time has no bound; "
                "allowed: a model of convolutions, matrix products and attention"
            )
    operations = {precision: traces[TRACED[precision]].operations for precision in case.precisions}
    record = RooflineRecord(
        spec_hash=spec.hash,
        spec=spec,
        parameters=traces["fp32"].parameters,
        flops=sum(operation.flops for operation in operations["fp32"]),
        bytes={precision: sum(operation.bytes for operation in each) for precision, each in operations.items()},
        roofs=[
            roof(operations["fp32"], operations[precision], device, precision)
            for device in DEVICES
            for precision in case.precisions
            if precision in device.tflops
        ],
        code=code,
        seconds=time.perf_counter() - started,
    )
    write_sealed(record, folder / "roofline.json")
    return record


def roof(reference: Sequence[Operation], operations: Sequence[Operation], device: Device, precision: Precision) -> Roof:
    """Return the bounds of one step.

    Args:
        reference: the operations of the step in fp32.
        operations: those of the same step in the precision.
        device: by its data sheet.
        precision: one that the device has.
    """
    base = [seconds_of(operation, device, "fp32") for operation in reference]
    times = [seconds_of(operation, device, precision) for operation in operations]
    total, before = sum(times), sum(base)
    share = sum(seconds for operation, seconds in zip(reference, base, strict=True) if operation.flops) / before
    matrix = sum(seconds for operation, seconds in zip(operations, times, strict=True) if operation.flops)
    bound = sum(
        seconds
        for operation, seconds in zip(operations, times, strict=True)
        if seconds > operation.bytes / (device.bandwidth * 1e12)
    )
    peaks = device.tflops[precision] / device.tflops["fp32"]
    fewer_bytes = 2 if precision in ("bf16", "fp16") else 1
    return Roof(
        device=device.name,
        precision=precision,
        seconds=total,
        speedup=before / total,
        matrix_share=matrix / total,
        compute_bound=bound / total,
        amdahl=1 / ((1 - share) / fewer_bytes + share / max(peaks, fewer_bytes)),
    )


def least_seconds(operations: Sequence[Operation], device: Device, precision: Precision) -> float:
    """Return the least time of a step."""
    return sum(seconds_of(operation, device, precision) for operation in operations)


def seconds_of(operation: Operation, device: Device, precision: Precision) -> float:
    """Return the least time of an operation: a product of 16-bit operands, or under TF32, runs at that peak."""
    of: Precision = precision if operation.half or precision == "tf32" else "fp32"
    return max(operation.flops / (device.tflops[of] * 1e12), operation.bytes / (device.bandwidth * 1e12))
