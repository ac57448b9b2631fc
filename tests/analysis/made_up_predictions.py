"""Predictions that nobody made: bytes and times whose ratios are known."""

from typing import Any

import made_up_timings

from halfscale.study.memory import MemoryCase, MemorySpec
from halfscale.study.predictions import (
    KindBytes,
    Largest,
    Measurement,
    MemoryRecord,
    Prediction,
    Roof,
    RooflineRecord,
)
from halfscale.study.roofline import RooflineCase, RooflineSpec

MIB = 2**20
STEP = {
    "name": "a_b",
    "model": "transformer",
    "input": {"kind": "tokens", "length": 16},
    "optimizer": {"name": "sgd", "lr": 0.1},
}
ENVIRONMENT = made_up_timings.ENVIRONMENT.model_copy(update={"device": "NVIDIA H200"})
COPIES = 2
"""MiB of 16-bit weight copies."""


def prediction(accounting: Any, precision: Any, batch: int) -> Prediction:
    """Return 4 MiB of weights, and activations of 2 MiB a sample, halved in 16 bits, beside copies of the weights."""
    half = precision != "fp32"
    activations = batch * MIB if half else 2 * batch * MIB
    copies = COPIES * MIB if half else 0
    zero = dict.fromkeys(("gradients", "optimizer", "inputs", "temporaries"), 0)
    peak = KindBytes(weights=4 * MIB, activations=activations, weight_copies=copies, **zero)
    return Prediction(
        accounting=accounting, precision=precision, batch_size=batch, peak=peak, saved=activations + copies
    )


def make_memory_record() -> MemoryRecord:
    """Return a case of batch sizes 1 and 8 in FP32 and BF16, of which one was measured, 10 % above, and one searched."""
    settings = {**STEP, "batch_sizes": [1, 8], "measure": [8], "search": True}
    spec = MemorySpec(case=MemoryCase.model_validate(settings), device="cuda")
    measured = Measurement(
        device="cuda",
        precision="bf16",
        batch_size=8,
        predicted=10 * MIB,
        peak=11 * MIB,
        allocated=12 * MIB,
        reserved=14 * MIB,
        retries=0,
    )
    return MemoryRecord(
        spec_hash=spec.hash,
        spec=spec,
        parameters=2**20,
        predictions=[
            prediction(accounting, precision, batch)
            for accounting in ("cpu", "cuda")
            for precision in ("fp32", "bf16")
            for batch in (1, 8)
        ],
        largest=[
            Largest(device="V100", precision="fp32", batch_size=0),
            Largest(device="A100", precision="fp32", batch_size=40),
            Largest(device="A100", precision="bf16", batch_size=70),
            Largest(device="H200", precision="fp32", batch_size=100),
            Largest(device="H200", precision="bf16", batch_size=200),
        ],
        measurements=[measured],
        searched={"fp32": 97},
        environment=ENVIRONMENT,
        code="",
        seconds=1.0,
    )


def roof(device: str, precision: Any, seconds: float, speedup: float) -> Roof:
    return Roof(
        device=device,
        precision=precision,
        seconds=seconds,
        speedup=speedup,
        matrix_share=0.25,
        compute_bound=0.1,
        amdahl=speedup + 1,
    )


def make_roofline_record() -> RooflineRecord:
    """Return a case on two devices, of which one has no BF16."""
    spec = RooflineSpec(case=RooflineCase.model_validate({**STEP, "batch_size": 4}))
    return RooflineRecord(
        spec_hash=spec.hash,
        spec=spec,
        parameters=1,
        flops=2_000_000_000,
        bytes={"fp32": 6, "bf16": 3, "fp16": 3},
        roofs=[
            roof("V100", "fp32", 0.04, 1),
            roof("V100", "fp16", 0.01, 4),
            roof("H200", "fp32", 0.01, 1),
            roof("H200", "bf16", 0.002, 5),
            roof("H200", "fp16", 0.002, 5),
        ],
        code="",
        seconds=1.0,
    )
