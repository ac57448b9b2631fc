"""An arm is held against the reference at its own learning rate, where there is one."""

import numpy as np
import pytest
from made_up import SETTINGS, make_study_folder

from halfscale.analysis.collect import collect, read_csv, read_runs
from halfscale.analysis.references import references
from halfscale.analysis.tables import read_arms, write_tables
from halfscale.study.arm import Arm

DYNAMIC = {"kind": "dynamic", "growth_interval": 5}


def arm(name, precision, **settings):
    return {"name": name, "precision": precision, **settings}


ARMS = [
    arm("fp32", "fp32"),
    arm("fp16", "fp16", loss_scaling=DYNAMIC),
    arm("fp32-x3", "fp32", lr_factor=3.0),
    arm("fp16-x3", "fp16", loss_scaling=DYNAMIC, lr_factor=3.0),
    arm("bf16-x10", "bf16", lr_factor=10.0),
]


def references_of(*arms):
    return references([Arm.model_validate(each) for each in arms], "fp32")


def test_an_arm_goes_with_the_reference_at_its_learning_rate_or_else_with_the_reference():
    assert references_of(*ARMS) == {
        "fp32": "fp32",
        "fp16": "fp32",
        "fp32-x3": "fp32-x3",
        "fp16-x3": "fp32-x3",
        "bf16-x10": "fp32",
    }


def test_the_first_of_several_is_taken_and_the_others_are_held_against_it():
    again = arm("again", "fp32", lr_factor=3.0, loss_scaling={"kind": "static", "scale": 8.0})  # without effect
    assert references_of(*ARMS, again)["again"] == "fp32-x3"
    same_rate = arm("same-rate", "fp32", lr_factor=1.0)
    assert references_of(*ARMS, same_rate)["same-rate"] == "fp32"


@pytest.mark.parametrize(
    "other",
    [
        {"perturb": "ulp"},
        {"loss_scaling": {"kind": "static", "scale": 8.0, "always": True}},
        {"inject": {"kind": "inf_gradient", "steps": [1]}},
        {"precision": "tf32"},
        {"workloads": ["resnet50"]},  # the arm runs on all
    ],
)
def test_an_arm_with_other_settings_is_no_reference(other):
    assert references_of(ARMS[0], ARMS[2] | other, ARMS[3])["fp16-x3"] == "fp32"


def test_an_arm_of_one_workload_goes_with_a_reference_that_has_it():
    x3 = [each | {"workloads": ["resnet50"]} for each in ARMS[2:4]]
    assert references_of(ARMS[0], *x3)["fp16-x3"] == "fp32-x3"


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setitem(SETTINGS, "arms", ARMS)
    make_study_folder(tmp_path, diverged={})
    collect(tmp_path)
    write_tables(tmp_path)
    return tmp_path


def test_gaps_are_within_a_learning_rate(study):
    """Arm number i is 0.002 i (1 + seed / 4) nats above arm 0: arm 3 is 0.002 above arm 2, arm 4 has but arm 0."""
    gaps = read_csv(study / "tables" / "gaps.csv").query("workload == 'transformer'").set_index("arm")
    assert list(gaps.columns) == ["workload", "seed", "reference", "gap", "eval_gap"]
    assert gaps["reference"].to_dict() == {"fp16": "fp32", "fp16-x3": "fp32-x3", "bf16-x10": "fp32"}
    np.testing.assert_allclose(gaps.loc["fp16", "gap"], [0.002, 0.0025, 0.003], rtol=1e-6)
    np.testing.assert_allclose(gaps.loc["fp16-x3", "gap"], [0.002, 0.0025, 0.003], rtol=1e-6)
    np.testing.assert_allclose(gaps.loc["bf16-x10", "gap"], [0.008, 0.010, 0.012], rtol=1e-6)
    np.testing.assert_allclose(gaps["eval_gap"], gaps["gap"], rtol=1e-6)


def test_tables_state_the_learning_rate_and_the_reference(study):
    runs = read_runs(study)
    factors = dict(zip(runs["arm"], runs["lr_factor"], strict=True))
    assert factors == {"fp32": 1, "fp16": 1, "fp32-x3": 3, "fp16-x3": 3, "bf16-x10": 10}
    assert list(runs.columns[:6]) == ["workload", "arm", "seed", "run_id", "lr_factor", "status"]
    arms = read_arms(study).query("workload == 'transformer'").set_index("arm")
    assert arms["lr_factor"].to_dict() == factors
    assert arms["reference"].fillna("").to_dict() == {
        "fp32": "",
        "fp16": "fp32",
        "fp32-x3": "",
        "fp16-x3": "fp32-x3",
        "bf16-x10": "fp32",
    }
    assert arms["gap"].dropna().tolist() == pytest.approx([0.0025, 0.0025, 0.010], rel=1e-6)
    assert arms["gap_n"].fillna(0).tolist() == [0, 3, 0, 3, 3]


def test_one_learning_rate_needs_no_such_columns(tmp_path):
    make_study_folder(tmp_path, arms=["fp32", "bf16"])
    collect(tmp_path)
    write_tables(tmp_path)
    for name in ("runs", "arms", "gaps"):
        assert {"lr_factor", "reference"}.isdisjoint(read_csv(tmp_path / "tables" / f"{name}.csv").columns)
