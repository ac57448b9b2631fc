"""From made-up step times, whose medians and ratios are known, to the throughput table."""

import math

import pandas as pd
import pytest

from halfscale.analysis.statistics import median_with_interval
from halfscale.analysis.throughput import throughput_table, throughput_tex
from halfscale.study.load import parse_study
from halfscale.study.records import Effective, Environment
from halfscale.study.runs import plan_study
from halfscale.study.throughput import ThroughputSpec
from halfscale.study.timings import Attained, ThroughputRecord, Timed

BLOCKS = 10
NOISE = [0.98, 1.0, 1.02, 1.0, 0.99, 1.01, 1.0, 1.0, 1.03, 0.97]
"""What the machine does to a whole block; its median is 1."""

SECONDS = {"fp32-contiguous-b8": 0.200, "bf16-contiguous-b8": 0.100, "bf16-scaled-contiguous-b8": 0.125}
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


def effective(precision: str) -> Effective:
    return Effective(
        device="cpu",
        precision=precision,  # type: ignore[arg-type]
        fell_back=False,
        backend="native",
        autocast_dtype=None,
        scaler_enabled=False,
        tf32_matmul=False,
        tf32_convolution=False,
        data="made up",
    )


@pytest.fixture
def spec() -> ThroughputSpec:
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


@pytest.fixture
def steps() -> pd.DataFrame:
    """Ten blocks of three steps each; the third is a straggler that no median may notice."""
    rows = []
    for block in range(BLOCKS):
        for position, (variant, seconds) in enumerate(SECONDS.items()):
            for loader, factor in ((False, 1.0), (True, 1.25)):
                for step, straggler in enumerate((1.0, 1.0, 7.0)):
                    whole = seconds * factor * NOISE[block] * straggler
                    phases = {"forward": whole / 4, "backward": whole / 2, "optimizer": whole / 4}
                    place = {"block": block, "position": position, "variant": variant, "loader": loader, "step": step}
                    rows.append({**place, "seconds": whole, **phases, "wall": seconds * NOISE[block] * 1.25})
    return pd.DataFrame(rows)


@pytest.fixture
def table(spec: ThroughputSpec, steps: pd.DataFrame) -> pd.DataFrame:
    timed = [
        Timed(
            variant=variant.name,
            status="timed" if variant.name in SECONDS else "numerics only",
            effective=effective(variant.precision) if variant.name in SECONDS else None,
            warmup=10,
            steady=True,
            scale=None,
            skipped=0,
        )
        for variant in spec.variants
        if variant.name != "fp32-scaled-contiguous-b8"
    ]
    timed.append(
        Timed(
            variant="fp32-scaled-contiguous-b8",
            status="unavailable",
            effective=None,
            warmup=0,
            steady=False,
            scale=None,
            skipped=0,
        )
    )
    record = ThroughputRecord(
        spec=spec,
        spec_hash=spec.hash,
        timed=timed,
        flops={"8": 400_000_000_000},
        samples_per_target=1,
        attained=Attained(gemm={"fp32": 4e12, "bf16": 8e12}, copy_bandwidth=1e10, transfer={}),
        threads=2,
        environment=ENVIRONMENT,
        code="",
        seconds=1.0,
        steps_sha256="",
    )
    return throughput_table(record, steps).set_index("variant")


def test_time_is_the_median_of_block_medians(table: pd.DataFrame) -> None:
    assert table.loc["fp32-contiguous-b8", "step_ms"] == pytest.approx(200.0)
    assert table.loc["bf16-contiguous-b8", "forward_ms"] == pytest.approx(25.0)
    assert table.loc["bf16-contiguous-b8", "backward_ms"] == pytest.approx(50.0)
    assert (
        196 <= table.loc["fp32-contiguous-b8", "step_ms_low"] <= 200 <= table.loc["fp32-contiguous-b8", "step_ms_high"]
    )


def test_ratios_are_taken_within_blocks(table: pd.DataFrame) -> None:
    """The blocks' noise falls on both alike: the ratio is exact and its interval has no width."""
    row = table.loc["bf16-contiguous-b8"]
    assert row["speedup"] == pytest.approx(2.0, rel=1e-12)
    assert row["speedup_low"] == pytest.approx(2.0, rel=1e-12)
    assert row["speedup_high"] == pytest.approx(2.0, rel=1e-12)
    assert math.isnan(table.loc["fp32-contiguous-b8", "speedup"])  # the reference has none


def test_a_scaler_is_held_against_the_same_precision_without(table: pd.DataFrame) -> None:
    row = table.loc["bf16-scaled-contiguous-b8"]
    assert row["scaler_cost"] == pytest.approx(1.25, rel=1e-12)
    assert row["speedup"] == pytest.approx(1.6, rel=1e-12)  # and the speed-up against plain fp32
    assert math.isnan(table.loc["bf16-contiguous-b8", "scaler_cost"])


def test_rates(table: pd.DataFrame) -> None:
    row = table.loc["bf16-contiguous-b8"]
    assert row["samples_per_second"] == pytest.approx(80.0)
    assert row["tflops"] == pytest.approx(4.0)
    assert row["share_of_gemm"] == pytest.approx(0.5)


def test_waiting_for_data_is_flagged(table: pd.DataFrame) -> None:
    row = table.loc["bf16-contiguous-b8"]
    assert row["loader_ms"] == pytest.approx(125.0)
    assert row["waiting"] == pytest.approx(0.2)
    assert row["input_bound"]
    assert row["launch_gap"] == pytest.approx(0.2)


def test_what_was_not_timed_has_a_row_and_no_number(table: pd.DataFrame) -> None:
    numbers = ["step_ms", "speedup", "scaler_cost", "tflops", "samples_per_second"]
    assert table.loc["fp16-contiguous-b8", "status"] == "numerics only"
    assert table.loc["fp32-scaled-contiguous-b8", "status"] == "unavailable"
    assert table.loc[["fp16-contiguous-b8", "fp32-scaled-contiguous-b8"], numbers].isna().all(axis=None)


def test_the_latex_table_names_what_has_no_time(table: pd.DataFrame) -> None:
    text = throughput_tex(table.reset_index())
    assert r"\textit{numerics only}" in text
    assert "$2.00$" in text
    assert r"$^\ast$: input-bound" in text


def test_a_bootstrap_interval_is_the_same_every_time_and_needs_two_values() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 10.0]
    first = median_with_interval(values)
    assert first == median_with_interval(values)
    assert first.median == 3.0
    assert 1.0 <= first.low < 3.0 < first.high <= 10.0
    assert math.isnan(median_with_interval([5.0]).low)
    assert math.isnan(median_with_interval([]).median)
