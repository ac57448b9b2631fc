"""Claims about speed and memory: made-up tables that give each verdict."""

import math

import pandas as pd
import pytest
from made_up_claims import judge, settings_of, study, timed

FP32 = {"name": "fp32", "precision": "fp32"}


def memory(*cases, accounting="cuda"):
    """A study with these cases: name, batch, and peak and what is kept in BF16 over FP32."""
    rows = []
    for case, batch, ratio, kept in cases:
        base = {"case": case, "accounting": accounting, "batch_size": batch}
        rows += [
            base | {"precision": "fp32", "ratio": 1.0, "saved": 1000},
            base | {"precision": "bf16", "ratio": ratio, "saved": int(1000 * kept)},
        ]
    return {"settings": settings_of([FP32]), "memory": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("cases", "kind"),
    [
        ([("a", 8, 0.52, 0.5), ("b", 8, 0.55, 0.5)], "supported"),
        ([("a", 8, 0.52, 0.5), ("b", 8, 0.56, 0.5)], "refuted"),
        ([("a", 8, 0.52, 0.5)], "inconclusive"),
        ([("a", 8, 0.83, 0.5)], "refuted"),
    ],
)
def test_half_memory(cases, kind):
    found = judge("half-memory", memory(*cases))
    assert found.kind == kind
    assert found.estimate == 100 * max(ratio for _, _, ratio, _ in cases)
    assert found.n == len(cases)


def test_half_memory_is_judged_at_the_largest_batch_and_by_cudas_autocast():
    cases = [("a", 1, 0.9, 1), ("a", 8, 0.5, 0.5), ("b", 1, 1.1, 1), ("b", 8, 0.45, 0.5)]
    assert judge("half-memory", memory(*cases)).kind == "supported"
    assert judge("half-memory", memory(*cases, accounting="cpu")).kind == "not testable"


def test_the_tolerance_of_half_memory_is_the_configs():
    tables = memory(("a", 8, 0.58, 0.5), ("b", 8, 0.5, 0.5))
    assert judge("half-memory", tables, half_memory={"tolerance": 0.1}).kind == "supported"
    assert judge("half-memory", tables).kind == "refuted"


@pytest.mark.parametrize(
    ("cases", "kind"),
    [
        ([("a", 1, 1.01, 1.2), ("b", 1, 0.9, 0.9)], "supported"),
        ([("a", 1, 1.0, 1.2), ("b", 1, 0.9, 0.9)], "inconclusive"),
        ([("a", 1, 1.0, 0.9), ("b", 1, 0.9, 0.9)], "refuted"),
        ([("a", 1, 1.0, 0.9)], "inconclusive"),
        ([("a", 2, 1.5, 0.9)], "not testable"),
    ],
)
def test_small_batch_memory(cases, kind):
    assert judge("amp-costs-memory-small-batch", memory(*cases)).kind == kind


@pytest.mark.parametrize(
    ("speedups", "kind"),
    [
        ({"a": (2.5, 2.1, 2.9), "b": (2.2, 2.0, 2.4)}, "supported"),
        ({"a": (2.5, 2.1, 2.9), "b": (1.4, 1.3, 1.5)}, "refuted"),
        ({"a": (2.5, 2.1, 2.9), "b": (2.1, 1.9, 2.3)}, "inconclusive"),
        ({"a": (2.1, math.nan, math.nan)}, "inconclusive"),
    ],
)
def test_double_speed(speedups, kind):
    assert judge("double-speed", timed(**speedups)).kind == kind


def test_double_speed_is_for_tensor_cores_alone():
    speedup = {"a": (2.5, 2.1, 2.9)}
    assert judge("double-speed", timed(device="cpu", **speedup)).kind == "not testable"
    slow = timed(**speedup)
    slow["throughput"]["gemm_tflops"] = 50.0
    assert judge("double-speed", slow).kind == "not testable"


@pytest.mark.parametrize(
    ("speedups", "kind"),
    [
        ({"a": (0.8, 0.7, 0.9), "b": (1.0, 0.9, 1.05)}, "supported"),
        ({"a": (0.8, 0.7, 0.9), "b": (1.3, 1.2, 1.4)}, "refuted"),
        ({"a": (0.8, 0.7, 0.9), "b": (1.1, 0.9, 1.2)}, "inconclusive"),
    ],
)
def test_no_tensor_cores(speedups, kind):
    assert judge("no-tensor-cores", timed(device="cpu", **speedups)).kind == kind


def test_no_tensor_cores_on_a_gpu():
    with_them = timed(a=(2.5, 2.1, 2.9))
    assert judge("no-tensor-cores", with_them).kind == "not testable"
    without = {**with_them, "throughput": with_them["throughput"].assign(gemm_tflops=50.0)}
    assert judge("no-tensor-cores", without).kind == "refuted"


def test_one_block_decides_nothing_about_speed():
    for device, claim in (("cpu", "no-tensor-cores"), ("cuda", "double-speed")):
        tables = timed(device=device, a=(3.0, 2.9, 3.1))
        tables["throughput"]["blocks"] = 1.0
        assert judge(claim, tables).kind == "inconclusive"


def test_times_of_an_emulation_are_no_evidence():
    tables = timed(device="cpu", a=(0.1, 0.09, 0.11))
    assert judge("no-tensor-cores", tables).kind == "supported"
    listed = {**tables, "throughput": tables["throughput"].assign(status="numerics only")}
    assert judge("no-tensor-cores", listed).kind == "not testable"
    asked_for = {**tables, "settings": settings_of([FP32], emulated=True)}
    assert judge("no-tensor-cores", asked_for).kind == "not testable"


def transfers(device="cuda", **times):
    """A study in which the inputs of a workload take these milliseconds, by precision."""
    rows = [{"workload": "images", "precision": name, "transfer_ms": time} for name, time in times.items()]
    return study([FP32], device=device) | {"throughput": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ({"fp32": 4.0, "fp16": 2.1, "bf16": 2.0}, "supported"),
        ({"fp32": 4.0, "fp16": 3.0, "bf16": 3.1}, "refuted"),
        ({"fp32": 4.0, "fp16": 3.0, "bf16": 2.0}, "inconclusive"),
        ({"fp32": 4.0, "fp16": 2.0}, "inconclusive"),
        ({"fp32": 4.0}, "not testable"),
        ({"fp32": 4.0, "fp16": 4.0, "bf16": 4.0}, "not testable"),  # tokens, which have one format
    ],
)
def test_half_transfer(times, kind):
    assert judge("half-transfer", transfers(**times)).kind == kind


def test_half_transfer_is_not_for_a_cpu():
    assert judge("half-transfer", transfers(device="cpu", fp32=4.0, fp16=2.0, bf16=2.0)).kind == "not testable"
