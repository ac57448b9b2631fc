"""The tables of predicted memory and time."""

import made_up_timings
import pytest

from halfscale.analysis.memory import describe_memory, largest_table, memory_table, memory_tex
from halfscale.analysis.roofline import roofline_table, roofline_tex
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


def prediction(precision, activations):
    zero = dict.fromkeys(("gradients", "optimizer", "inputs", "weight_copies", "temporaries"), 0)
    peak = KindBytes(weights=4 * MIB, activations=activations * MIB, **zero)
    return Prediction(accounting="cuda", precision=precision, batch_size=8, peak=peak, saved=activations * MIB)


@pytest.fixture
def record():
    spec = MemorySpec(case=MemoryCase.model_validate({**STEP, "batch_sizes": [8], "measure": [8]}), device="cuda")
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
        predictions=[prediction("fp32", 16), prediction("bf16", 6)],
        largest=[Largest(device="H200", precision="fp32", batch_size=100)],
        measurements=[measured],
        searched={"fp32": 97},
        environment=ENVIRONMENT,
        code="",
        seconds=1.0,
    )


def test_a_prediction_stands_beside_its_measurement(record):
    table = memory_table(record)
    assert table["ratio"].tolist() == [1.0, 0.5]
    assert table["peak"].tolist() == [20 * MIB, 10 * MIB]
    assert table["measured"].isna().tolist() == [True, False]
    fp32, bf16 = table.to_dict("records")
    assert (bf16["measured"], bf16["allocated"], bf16["reserved"], bf16["retries"]) == (11 * MIB, 12 * MIB, 14 * MIB, 0)
    assert bf16["residual"] == pytest.approx(0.1)
    assert fp32["batch_size"] == 8


def test_the_largest_batch_is_predicted_and_searched(record):
    assert largest_table(record).to_dict("records") == [
        {"case": "a_b", "device": "H200", "precision": "fp32", "batch_size": 100, "how": "predicted"},
        {"case": "a_b", "device": "NVIDIA H200", "precision": "fp32", "batch_size": 97, "how": "searched"},
    ]


def test_words_and_latex(record):
    text = describe_memory(record)
    assert "a_b: 1,048,576 parameters" in text
    assert "20.0" in text
    tex = memory_tex(memory_table(record))
    assert r"a\_" in tex
    assert "CUDA autocast" in tex
    assert "$20.0$" in tex


def test_the_roofline_table():
    spec = RooflineSpec(case=RooflineCase.model_validate({**STEP, "batch_size": 4}))
    roof = Roof(
        device="H200", precision="bf16", seconds=0.002, speedup=5, matrix_share=0.25, compute_bound=0.1, amdahl=6
    )
    made = RooflineRecord(
        spec_hash=spec.hash, spec=spec, parameters=1, flops=2, bytes={"bf16": 3}, roofs=[roof], code="", seconds=1.0
    )
    (row,) = roofline_table(made).to_dict("records")
    assert (row["case"], row["batch_size"], row["step_ms"], row["bytes"], row["amdahl"]) == ("a_b", 4, 2.0, 3, 6)
    assert "H200 & BF16 & $2.00$ & $5.00$ & $6.00$" in roofline_tex(roofline_table(made))
