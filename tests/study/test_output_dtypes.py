"""Which workloads' outputs are looked at, and by which spec."""

from pathlib import Path

import pytest

from halfscale.study.config import Study
from halfscale.study.load import ConfigError, load_study, parse_study
from halfscale.study.output_dtypes import OutputDtypesSpec
from halfscale.study.runs import plan_study

CONFIG = Path(__file__).parents[2] / "config"


def with_experiments(**experiments: object) -> Study:
    values = load_study([CONFIG / "smoke.yaml"]).model_dump(exclude={"experiments"})
    return parse_study({**values, "experiments": experiments}, "test")


def test_a_study_that_does_not_ask_looks_at_nothing() -> None:
    assert plan_study(with_experiments()).output_dtypes == {}


def test_all_workloads_are_looked_at_unless_some_are_named() -> None:
    assert list(plan_study(with_experiments(output_dtypes={})).output_dtypes) == ["resnet50", "transformer"]
    named = with_experiments(output_dtypes={"workloads": ["transformer"]})
    assert list(plan_study(named).output_dtypes) == ["transformer"]


def test_a_spec_is_of_the_model_the_data_and_the_device() -> None:
    study = with_experiments(output_dtypes={})
    spec = plan_study(study).output_dtypes["resnet50"]
    workload = study.workloads[0]
    assert (spec.model, spec.model_args, spec.data_args) == (workload.model, workload.model_args, workload.data_args)
    assert (spec.memory_format, spec.device, spec.seed) == (
        workload.memory_format,
        study.device,
        study.seeds_of(workload)[0],
    )
    assert OutputDtypesSpec.model_validate_json(spec.canonical()) == spec
    on_gpu = study.model_copy(update={"device": "cuda"})
    assert plan_study(on_gpu).output_dtypes["resnet50"].hash != spec.hash


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workloads": ["nope"]}, "experiments.output_dtypes.workloads: 'nope' is no workload; allowed: resnet50, "),
        ({"workloads": []}, "experiments.output_dtypes.workloads"),
        ({"workload": ["transformer"]}, "experiments.output_dtypes.workload"),
    ],
)
def test_a_bad_config_is_told_by_key_and_value(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_experiments(output_dtypes=settings)
    assert message in str(caught.value)
