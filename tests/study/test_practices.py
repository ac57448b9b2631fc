"""What a case of the practices may be, and which arms may be wrong."""

import copy
from typing import Any

import pytest

from halfscale.study.load import ConfigError, parse_study
from halfscale.study.practices import PracticesSpec
from halfscale.study.runs import plan_study

CASE: dict[str, Any] = {
    "name": "clipping",
    "workload": {
        "name": "tokens",
        "model": "transformer",
        "data": "markov",
        "batch_size": 4,
        "steps": 10,
        "optimizer": {"name": "sgd", "lr": 0.01},
        "clip_norm": 1.0,
    },
    "arms": [
        {"name": "right", "precision": "fp16"},
        {"name": "early", "precision": "fp16", "pitfall": "clip_before_unscale"},
    ],
}

Settings = dict[str, Any]


@pytest.fixture
def case(settings: Settings) -> dict[str, Any]:
    """A good case of a good config, the reader's to change."""
    settings["experiments"] = {"practices": {"cases": [copy.deepcopy(CASE)]}}
    return settings["experiments"]["practices"]["cases"][0]


def spec_of(settings: Settings) -> PracticesSpec:
    return plan_study(parse_study(settings, "test")).practices["clipping"]


def test_a_case_is_every_arm_with_every_seed_of_the_study(settings: Settings, case: dict[str, Any]) -> None:
    spec = spec_of(settings)
    assert spec.reference == "right"
    assert [(arm, run.seed, run.pitfall) for arm, run in spec.runs()] == [
        ("right", 0, None),
        ("right", 1, None),
        ("early", 0, "clip_before_unscale"),
        ("early", 1, "clip_before_unscale"),
    ]
    case["reference"] = "right"
    assert spec_of(settings) == spec


def test_a_case_may_have_fewer_seeds_but_no_others(settings: Settings, case: dict[str, Any]) -> None:
    case["workload"]["seeds"] = [1]
    assert [run.seed for _, run in spec_of(settings).runs()] == [1, 1]
    case["workload"]["seeds"] = [2]
    with pytest.raises(ConfigError, match=r"workloads\[tokens\]\.seeds: 2 is no seed of the study; allowed: 0, 1"):
        parse_study(settings, "test")


def test_what_an_arm_does_to_modules_is_part_of_its_run(settings: Settings, case: dict[str, Any]) -> None:
    treatment = {"fp32_modules": ["head", "blocks.0", "head"], "layer_scales": {"head": 0.25, "blocks.0": 2}}
    case["arms"] += [
        {"name": "half", "precision": "fp16", **treatment},
        {"name": "full", "precision": "fp32", **treatment},
    ]
    half, full = (treatment.run for treatment in spec_of(settings).treatments[2:])
    assert half.fp32_modules == ["blocks.0", "head"]
    assert full.fp32_modules == []  # all of it is FP32 already
    assert list(half.layer_scales.items()) == [("blocks.0", 2.0), ("head", 0.25)]


def test_a_loss_factor_is_part_of_the_run(settings: Settings, case: dict[str, Any]) -> None:
    before = spec_of(settings).hash
    case["workload"]["loss_factor"] = 4096
    spec = spec_of(settings)
    assert {run.loss_factor for _, run in spec.runs()} == {4096.0}
    assert spec.hash != before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"arms": [{"name": "fp16", "precision": "fp16"}, {"name": "fp16", "precision": "bf16"}]},
            "names one twice; each must be unique",
        ),
        ({"reference": "left"}, r"cases\[clipping\]\.reference = 'left': no such arm; allowed: right, early"),
        ({"reference": "early"}, r"arms\[early\]\.pitfall: a wrong way is nothing to hold others against"),
    ],
)
def test_a_bad_case_is_told_by_name(
    settings: Settings, case: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    case |= changes
    with pytest.raises(ConfigError, match=message):
        parse_study(settings, "test")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pitfall": "clip_befor_unscale"}, r"arms\[early\]\.pitfall = 'clip_befor_unscale': allowed: 'clip_before"),
        ({"precision": "bf16"}, "pitfall = 'clip_before_unscale': does nothing where nothing is scaled"),
        ({"pitfall": "half_loss", "precision": "fp32"}, "pitfall = 'half_loss': does nothing in fp32"),
        ({"fallback": "fp32"}, "pitfall = 'clip_before_unscale': cannot be had with fallback = 'fp32'"),
        ({"pitfall": "half_weights", "fp32_modules": ["head"]}, "has no FP32 weights for fp32_modules"),
        ({"layer_scales": {"head": 0.3}}, r"head: 0\.3 is no power of two"),
        ({"workloads": ["images"]}, "an arm of a case is for its workload"),
        ({"inject": {"kind": "large_input", "steps": [10]}}, "10 is past the end of workload 'tokens'"),
        ({"lr_factor": 1e308}, "makes the learning rate of workload 'tokens'"),
    ],
)
def test_a_bad_arm_is_told_by_name(
    settings: Settings, case: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    case["arms"][1] |= changes
    if "lr_factor" in changes:
        case["workload"]["optimizer"]["lr"] = 1e30
    with pytest.raises(ConfigError, match=message):
        parse_study(settings, "test")


def test_clipping_too_early_needs_a_norm_to_clip_at(settings: Settings, case: dict[str, Any]) -> None:
    case["workload"]["clip_norm"] = None
    with pytest.raises(ConfigError, match="workload 'tokens' does not clip; allowed: with a clip_norm"):
        parse_study(settings, "test")


def test_no_arm_of_the_study_itself_is_wrong(settings: Settings) -> None:
    settings["arms"].append({"name": "wrong", "precision": "fp16", "pitfall": "half_loss"})
    with pytest.raises(ConfigError, match=r"arms\[wrong\]\.pitfall = 'half_loss': a wrong way is no arm of the study"):
        parse_study(settings, "test")


def test_the_reference_of_a_study_scales_no_layer(settings: Settings) -> None:
    settings["arms"][0]["layer_scales"] = {"head": 2.0}
    with pytest.raises(ConfigError, match="no layer_scales"):
        parse_study(settings, "test")
