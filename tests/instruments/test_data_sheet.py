"""The data sheet of a device that is listed, for variants that were timed on it."""

import pytest
import torch

from halfscale.instruments.data_sheet import data_sheet, sample_of
from halfscale.study.load import parse_study
from halfscale.study.runs import plan_study
from halfscale.study.step import Image, Tokens
from halfscale.study.throughput import ThroughputSpec
from halfscale.workloads.batch import Batch

PRECISIONS = ["fp32", "tf32", "bf16", "fp16"]


@pytest.fixture
def spec() -> ThroughputSpec:
    tokens = {"vocabulary": 8, "context": 16}
    workload = {
        "name": "tokens",
        "model": "transformer",
        "model_args": {**tokens, "width": 32, "depth": 1, "heads": 2},
        "data": "markov",
        "data_args": tokens,
        "batch_size": 4,
        "steps": 1,
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
    study = {
        "study": "listed",
        "seeds": [0],
        "workloads": [workload],
        "arms": [{"name": "fp32", "precision": "fp32"}],
        "experiments": {"throughput": {"levels": {"precision": PRECISIONS, "loss_scaling": [False, True]}}},
    }
    return plan_study(parse_study(study, "test")).throughput["tokens"]


TOKENS = Batch(torch.zeros(4, 16, dtype=torch.int64), torch.zeros(4, 16, dtype=torch.int64), None)


def test_peaks_and_bounds_of_a_listed_device(spec: ThroughputSpec) -> None:
    sheet = data_sheet(spec, spec.variants, "NVIDIA H200", TOKENS)
    assert sheet is not None
    assert sheet.device == "H200"
    assert sheet.peaks == {"fp32": 67e12, "tf32": 494.7e12, "bf16": 989.4e12, "fp16": 989.4e12}
    assert sheet.least_seconds.keys() == {variant.name for variant in spec.variants}
    least = {variant.precision: sheet.least_seconds[variant.name] for variant in spec.variants}
    assert least["fp32"] > least["bf16"] == least["fp16"] > 0
    assert least["tf32"] <= least["fp32"]


def test_a_precision_that_the_device_lacks_has_no_bound(spec: ThroughputSpec) -> None:
    sheet = data_sheet(spec, spec.variants, "Tesla V100-SXM2-16GB", TOKENS)
    assert sheet is not None
    assert sheet.peaks.keys() == {"fp32", "fp16"}
    assert {name.split("-")[0] for name in sheet.least_seconds} == {"fp32", "fp16"}


@pytest.mark.parametrize("model", ["multiplied", "checkpointed"])
def test_a_step_that_is_not_counted_or_traced_has_peaks_and_no_bound(spec: ThroughputSpec, model: str) -> None:
    images = Batch(torch.zeros(4, 3, 2, 2), torch.zeros(4, dtype=torch.int64), None)
    own = spec.model_copy(update={"model": f"tiny_workloads:{model}", "model_args": {}})
    sheet = data_sheet(own, [each for each in spec.variants if each.precision == "bf16"], "NVIDIA H200", images)
    assert sheet is not None
    assert sheet.peaks == {"bf16": 989.4e12}
    assert sheet.least_seconds == {}


def test_a_device_that_is_not_listed_has_no_sheet(spec: ThroughputSpec) -> None:
    assert data_sheet(spec, spec.variants, "AMD EPYC", TOKENS) is None


@pytest.mark.parametrize(
    ("inputs", "sample"),
    [
        (torch.zeros(2, 3, 8, 8), Image(kind="image", channels=3, size=8)),
        (torch.zeros(2, 5, dtype=torch.int64), Tokens(kind="tokens", length=5)),
        (torch.zeros(2, 3, 8, 9), None),
        (torch.zeros(2, 7), None),
    ],
)
def test_what_a_sample_is(inputs: torch.Tensor, sample: Image | Tokens | None) -> None:
    assert sample_of(Batch(inputs, torch.zeros(2, dtype=torch.int64), None)) == sample
