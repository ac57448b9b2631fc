"""The throughput experiment's factorial and its spec."""

from pathlib import Path

import pytest

from halfscale.study.config import Study
from halfscale.study.load import ConfigError, load_study, parse_study
from halfscale.study.runs import plan_study
from halfscale.study.throughput import Levels, Throughput, cross, short_names

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture
def study() -> Study:
    return load_study([CONFIG / "smoke.yaml"])


def with_throughput(study: Study, **settings: object) -> Study:
    values = study.model_dump(exclude={"experiments"})
    return parse_study({**values, "experiments": {"throughput": settings}}, "test")


def test_a_study_that_times_nothing_has_no_throughput_spec(study: Study) -> None:
    values = study.model_dump(exclude={"experiments"})
    assert plan_study(parse_study(values, "test")).throughput == {}


def test_levels_left_out_are_the_workloads(study: Study) -> None:
    workload = study.workloads[0]
    variants = cross(Levels(), workload)
    assert [variant.precision for variant in variants] == ["fp32", "bf16", "fp16"]
    assert {variant.memory_format for variant in variants} == {workload.memory_format}
    assert {variant.batch_size for variant in variants} == {workload.batch_size}
    assert not any(variant.compile or variant.fused or variant.loss_scaling for variant in variants)


def test_every_combination_is_a_variant_with_a_name_of_its_own(study: Study) -> None:
    levels = Levels(
        precision=["fp32", "tf32"],
        loss_scaling=[False, True],
        memory_format=["contiguous", "channels_last"],
        batch_size=[1, 2, 3],
        compile=[False, True],
        fused=[False, True],
    )
    variants = cross(levels, study.workloads[0])
    assert len(variants) == 2 * 2 * 2 * 3 * 2 * 2
    assert len({variant.name for variant in variants}) == len(variants)
    assert variants[0].name == "fp32-contiguous-b1"
    assert variants[-1].name == "tf32-scaled-channels_last-b3-compile-fused"


def test_a_short_name_leaves_out_what_all_share(study: Study) -> None:
    variants = cross(Levels(loss_scaling=[False, True]), study.workloads[0])
    assert list(short_names(variants).values()) == ["fp32", "bf16", "fp16", "fp32-scaled", "bf16-scaled", "fp16-scaled"]
    variants = cross(Levels(precision=["fp32"], batch_size=[1, 2], fused=[True]), study.workloads[0])
    assert list(short_names(variants).values()) == ["fp32-b1-fused", "fp32-b2-fused"]


def test_one_spec_a_workload(study: Study) -> None:
    names = [workload.name for workload in study.workloads]
    assert list(plan_study(with_throughput(study)).throughput) == names
    assert list(plan_study(with_throughput(study, workloads=names[1:])).throughput) == names[1:]


def test_what_is_measured_decides_the_spec_and_nothing_else(study: Study) -> None:
    name = study.workloads[0].name
    hashes = [
        plan_study(with_throughput(study, **settings)).throughput[name].hash
        for settings in ({}, {"workloads": [name]}, {"blocks": 10}, {"blocks": 11}, {"levels": {"batch_size": [1]}})
    ]
    assert hashes[0] == hashes[1] == hashes[2]
    assert len(set(hashes)) == 3


def test_a_workload_may_have_levels_of_its_own(study: Study) -> None:
    first, second = (workload.name for workload in study.workloads)
    levels = {"levels": {"precision": ["fp32"]}, "levels_of": {second: {"precision": ["fp32", "bf16"]}}}
    timed = plan_study(with_throughput(study, **levels)).throughput
    assert [len(timed[name].variants) for name in (first, second)] == [1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workloads": ["nope"]}, "experiments.throughput.workloads: 'nope' is no workload"),
        ({"blocks": 0}, "experiments.throughput.blocks = 0"),
        ({"levels": {"precision": []}}, "experiments.throughput.levels.precision"),
        ({"levels": {"fused": [True, True]}}, "names a level twice"),
        ({"levels": {"precison": ["fp32"]}}, "unknown key"),
        (
            {"levels_of": {"images": {"bogus": [1]}}},
            r"levels_of\.images\.bogus = \[1\]: unknown key; allowed: precision, loss_",
        ),
        (
            {"levels_of": {"images": None}},
            r"levels_of\.images = null: allowed: a mapping with the keys precision, loss_",
        ),
        ({"levels_of": {"nope": {}}}, "experiments.throughput.levels_of: 'nope' is no workload that is timed"),
    ],
    ids=["workload", "blocks", "empty", "twice", "key", "levels_of key", "levels_of null", "levels_of"],
)
def test_bad_settings_are_refused(study: Study, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_throughput(study, **settings)


def test_defaults_are_the_protocols() -> None:
    assert (Throughput().blocks, Throughput().steps, Throughput().warmup) == (10, 10, 10)


def test_the_gpu_study_times_the_published_size_over_every_level() -> None:
    """{fp32, tf32, bf16, fp16} x {NCHW, channels_last} x {32, 128, 256}, ResNet-50 at 224 x 224."""
    plan = plan_study(load_study([CONFIG / "gpu.yaml"]))
    assert plan.throughput.keys() == {"resnet50-224", "gpt-512", "gpt-2048"}
    assert len(plan.throughput["gpt-2048"].variants) == 4
    spec = plan.throughput["resnet50-224"]
    assert (spec.model, spec.data_args["image_size"], spec.model_args["num_classes"]) == ("resnet50", 224, 1000)
    assert len(spec.variants) == 4 * 2 * 3
    assert all(run.device == "cuda" for run in plan.runs.values())


def test_the_gpu_study_probes_what_it_trains_and_what_it_times() -> None:
    plan = plan_study(load_study([CONFIG / "gpu.yaml"]))
    steps = {name: probe.steps for name, probe in plan.probe.items()}
    assert steps == {
        "resnet50-64": [0, 502, 1005],
        "transformer-25m": [0, 502, 1005],
        "resnet50-224": [0, 1],  # of one step
        "gpt-512": [0, 1],
    }
