"""config/README.md mentions every key, and its examples are good configs."""

import copy
import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from halfscale.analysis.rates import swept
from halfscale.study.config import Study
from halfscale.study.explain import models_in
from halfscale.study.load import load_study, overlay, parse_study
from halfscale.study.runs import plan_study
from halfscale.workloads.registry import build_model

CONFIG = Path(__file__).parents[2] / "config"
README = (CONFIG / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def settings_in(block: str):
    return YAML(typ="safe").load(block)


EXAMPLE, ADD_AN_ARM, ADD_A_SWEEP, SWEEP_RATES, OWN_MODEL, MORE_SEEDS = [
    block for block in blocks("yaml") if settings_in(block)
]


def all_models(root: type[BaseModel] = Study) -> list[type[BaseModel]]:
    inner = [model for field in root.model_fields.values() for model in models_in(field.annotation)]
    return [root, *(model for each in inner for model in all_models(each))]


def added(fragment: str):
    """The example with the fragment's list items added to its own."""
    settings = copy.deepcopy(settings_in(EXAMPLE))
    for key, items in settings_in(fragment).items():
        settings[key] += items
    return settings


@pytest.mark.parametrize("model", all_models(), ids=lambda model: model.__name__)
def test_every_key_is_in_a_table_and_in_the_example(model):
    for key in model.model_fields:
        if key != "kind":
            assert f"\n| `{key}` |" in README, f"{model.__name__}.{key} has no row"
        assert re.search(rf"\b{key}:", EXAMPLE), f"{model.__name__}.{key} is not in the example"


def test_the_models_are_all_reached():
    assert {model.__name__ for model in all_models()} == {
        *("Study", "Workload", "SGD", "AdamW", "Schedule", "Sweep"),
        *("Arm", "DynamicLossScaling", "StaticLossScaling", "NoLossScaling", "Inject"),
        *("Experiments", "OutputDtypes", "Probe", "Throughput", "Levels"),
        *("Memory", "MemoryCase", "Roofline", "RooflineCase", "Image", "Tokens"),
        *("Practices", "PracticesCase", "Equivalence", "Margin"),
        *("Claims", "HalfMemory", "SmallBatchMemory", "DoubleSpeed", "NoTensorCores", "HalfTransfer", "Bf16NoScaling"),
        *("DefaultsFine", "Remedies", "WrongWay", "MasterWeights"),
    }


def test_the_example_is_a_study():
    plan = plan_study(parse_study(settings_in(EXAMPLE), "example"))
    assert len(plan.arms) == 12 + 9


def test_what_the_example_calls_a_default_is_one():
    settings = settings_in(EXAMPLE)
    marked = [line.split(":")[0].strip() for line in EXAMPLE.splitlines() if re.search(r"# default($|;|: no )", line)]
    assert marked == [
        *("device", "backend", "threads", "seeds_per_job", "reference", "accumulate", "clip_norm", "loss_factor"),
        *("init_scale", "growth_factor", "backoff_factor"),
        *("margin", "alpha"),
        *("at", "lowest", "highest", "every"),
        *("blocks", "steps", "warmup", "emulated", "compile", "fused"),
    ]
    before = plan_study(parse_study(settings, "example"))
    timing = settings["experiments"]["throughput"]
    probing = settings["experiments"]["probe"]
    judged = settings["experiments"]["equivalence"]
    for owner in [settings, settings["arms"][4]["loss_scaling"], judged, probing, timing, timing["levels"]]:
        for key in marked:
            owner.pop(key, None)
    for key in ("accumulate", "clip_norm", "loss_factor"):
        settings["workloads"][0].pop(key)
    assert plan_study(parse_study(settings, "example")) == before


def test_recipe_for_an_arm():
    assert "fp16-cautious" in [arm.name for arm in parse_study(added(ADD_AN_ARM), "recipe").arms]


def test_recipe_for_a_sweep():
    arms = plan_study(parse_study(added(ADD_A_SWEEP), "recipe")).arms
    assert arms[-1].name == "backoff_backoff_factor-0.5_growth_interval-20"


def test_recipe_for_a_sweep_of_rates():
    plan = plan_study(parse_study(added(SWEEP_RATES), "recipe"))
    assert [len(family) for family in swept(plan, "sequences")] == [7, 7, 7]
    runs = plan_study(parse_study(settings_in(EXAMPLE), "example")).runs
    there_already = 3  # fp32, bf16 and fp16-hot
    assert len(plan.runs) == len(runs) + 2 * 3 * (3 * 7 - there_already)


def test_recipe_for_a_model_of_ones_own(user_package):
    (source,) = blocks("python")
    name = source.splitlines()[0].removeprefix("# ")
    user_package(name, source)
    workload = parse_study(added(OWN_MODEL), "recipe").workloads[-1]
    assert workload.model_args == {"width": 128, "num_classes": 10}
    assert build_model(workload.model, workload.model_args)[1].out_features == 128


def test_recipe_for_files_over_files():
    settings = overlay(settings_in((CONFIG / "config.yaml").read_text()), settings_in(MORE_SEEDS))
    study = parse_study(settings, "recipe")
    assert (study.study, len(study.seeds), len(study.arms)) == (
        "more-seeds",
        6,
        len(load_study([CONFIG / "config.yaml"]).arms),
    )
