"""The memory and roofline experiments: their specs, and what is refused."""

from pathlib import Path

import pytest

from halfscale.study.choose import choose_memory
from halfscale.study.load import ConfigError, load_study, parse_study
from halfscale.study.runs import plan_study

CONFIG = Path(__file__).parents[2] / "config"
STEP = {
    "name": "gpt",
    "model": "transformer",
    "model_args": {"vocabulary": 8},
    "input": {"kind": "tokens", "length": 16},
    "optimizer": {"name": "sgd", "lr": 0.1},
}
MEMORY = {**STEP, "batch_sizes": [1, 2]}
ROOFLINE = {**STEP, "batch_size": 2}


def plan(**experiments):
    values = load_study([CONFIG / "smoke.yaml"]).model_dump(exclude={"experiments"})
    named = {name: {"cases": cases} for name, cases in experiments.items()}
    return plan_study(parse_study({**values, "experiments": named}, "test"))


def test_a_case_is_a_spec_and_none_is_none():
    made = plan(memory=[MEMORY], roofline=[ROOFLINE])
    assert (list(made.memory), list(made.roofline)) == (["gpt"], ["gpt"])
    assert made.memory["gpt"].case.model_args["width"] == 128
    assert (plan().memory, plan().roofline) == ({}, {})


def test_defaults_spelled_out_are_the_same_spec():
    spelled = {**MEMORY, "precisions": ["fp32", "bf16"], "measure": [], "search": False}
    assert plan(memory=[spelled]).memory["gpt"].hash == plan(memory=[MEMORY]).memory["gpt"].hash


@pytest.mark.parametrize(
    ("experiments", "message"),
    [
        ({"memory": [MEMORY, MEMORY]}, "names one twice"),
        ({"memory": [{**MEMORY, "batch_sizes": [1, 1]}]}, "names one twice"),
        ({"memory": [{**MEMORY, "measure": [3]}]}, "measure: 3 is not predicted; allowed: 1, 2"),
        ({"memory": [{**MEMORY, "precisions": ["tf32"]}]}, "tf32"),
        ({"memory": [{**MEMORY, "model_args": {"widht": 1}}]}, "did you mean"),
        ({"memory": [{**MEMORY, "input": {"kind": "sound"}}]}, "sound"),
        ({"roofline": [{**ROOFLINE, "precisions": ["bf16"]}]}, "fp32 is missing"),
    ],
    ids=["case", "batch", "measure", "precision", "argument", "input", "reference"],
)
def test_bad_settings_are_refused(experiments, message):
    with pytest.raises(ConfigError, match=message):
        plan(**experiments)


def test_an_unknown_case_is_told_with_those_there_are():
    with pytest.raises(ConfigError, match="--case nope: this config has none of that name"):
        choose_memory([CONFIG / "smoke.yaml"], "nope")
