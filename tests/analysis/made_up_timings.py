"""A throughput measurement that nobody made: step times whose medians and ratios are known."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from halfscale.study.load import parse_study
from halfscale.study.records import Effective, Environment
from halfscale.study.runs import plan_study
from halfscale.study.throughput import ThroughputSpec
from halfscale.study.timings import Attained, DataSheet, GpuLook, ThroughputRecord, Timed

NOISE = [0.98, 1.0, 1.02, 1.0, 0.99, 1.01, 1.0, 1.0, 1.03, 0.97]
"""What the machine does to a whole block; its median is 1."""

SECONDS = {"fp32-contiguous-b8": 0.200, "bf16-contiguous-b8": 0.100, "bf16-scaled-contiguous-b8": 0.125}
STATUS: dict[str, Any] = dict.fromkeys(SECONDS, "timed") | {"fp32-scaled-contiguous-b8": "unavailable"}
"""By variant; what is not named is numerics only."""

ENVIRONMENT = Environment(
    torch="2",
    torchvision="0",
    python="3",
    platform="Linux-x86_64",
    device="a CPU",
    cpu_capability="AVX2",
    cpu_features=[],
    native_fp16=False,
    native_bf16=True,
    commit="unknown",
    clean=True,
)


def make_timing_spec() -> ThroughputSpec:
    """Return the spec of fp32, bf16 and fp16, each with a scaler and without."""
    workload = {
        "name": "images",
        "model": "resnet50",
        "data": "digits",
        "batch_size": 8,
        "steps": 1,
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
    study = {
        "study": "made-up",
        "seeds": [0],
        "workloads": [workload],
        "arms": [{"name": "fp32", "precision": "fp32"}],
        "experiments": {
            "throughput": {"levels": {"precision": ["fp32", "bf16", "fp16"], "loss_scaling": [False, True]}}
        },
    }
    return plan_study(parse_study(study, "test")).throughput["images"]


def make_steps() -> pd.DataFrame:
    """Return ten blocks of three steps each; the third is a straggler that no median may notice."""
    rows = []
    for block, noise in enumerate(NOISE):
        for position, (variant, seconds) in enumerate(SECONDS.items()):
            for loader, factor in ((False, 1.0), (True, 1.25)):
                for step, straggler in enumerate((1.0, 1.0, 7.0)):
                    whole = seconds * factor * noise * straggler
                    work = whole / factor
                    phases = {"forward": work / 4, "backward": work / 2, "optimizer": work / 4}
                    place = {"block": block, "position": position, "variant": variant, "loader": loader, "step": step}
                    rows.append({**place, "seconds": whole, **phases, "wall": seconds * noise * 1.25})
    return pd.DataFrame(rows)


def make_sheet() -> DataSheet:
    """Return a data sheet of 5 and 10 TFLOP/s, with a bound for one variant."""
    return DataSheet(device="H200", peaks={"fp32": 5e12, "bf16": 10e12}, least_seconds={"fp32-contiguous-b8": 0.05})


def make_record(
    spec: ThroughputSpec, sheet: DataSheet | None = None, looks: Sequence[GpuLook] = ()
) -> ThroughputRecord:
    """Return the record that goes with the steps: 0.4 TFLOP a step, products at 4 and 8 TFLOP/s."""
    timed = []
    for variant in spec.variants:
        status = STATUS.get(variant.name, "numerics only")
        timed.append(
            Timed(
                variant=variant.name,
                status=status,
                effective=make_effective(variant.precision) if status == "timed" else None,
                warmup=10 if status == "timed" else 0,
                steady=status == "timed",
                scale=2.0**14 if status == "timed" and variant.loss_scaling else None,
            )
        )
    return ThroughputRecord(
        spec=spec,
        spec_hash=spec.hash,
        timed=timed,
        flops={"8": 400_000_000_000},
        targets_per_sample=1,
        attained=Attained(gemm={"fp32": 4e12, "bf16": 8e12}, copy_bandwidth=1e10, transfer={}),
        sheet=sheet,
        gpu=list(looks),
        threads=2,
        environment=ENVIRONMENT,
        code="",
        seconds=1.0,
        steps_sha256="",
    )


def make_effective(precision: Any) -> Effective:
    """Return what was in effect for a precision on a CPU."""
    return Effective(
        device="cpu",
        precision=precision,
        fell_back=False,
        backend="native",
        autocast_dtype=None,
        scaler_enabled=False,
        tf32_matmul=False,
        tf32_convolution=False,
        fp16_reduced_precision_reduction=True,
        bf16_reduced_precision_reduction=True,
        data="made up",
    )
