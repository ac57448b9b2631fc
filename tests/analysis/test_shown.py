"""Which arms are shown of more than can be read: by the plan alone, and said in so many words."""

import pandas as pd
import pytest

from halfscale.analysis.shown import Shown, repeats, rows_of, spread
from halfscale.study.arm import Arm

PLAN = [
    Arm.model_validate({"name": f"{precision}-x{factor:g}", "precision": precision, "lr_factor": factor})
    for precision in ("fp32", "bf16", "tf32", "fp16")
    for factor in (0.5, 1.0, 2.0)
]
NAMES = [arm.name for arm in PLAN]


def choose(most, repeated=(), names=NAMES):
    return Shown.choose({"a": names}, most, PLAN, {("a", name) for name in repeated})


def test_up_to_the_limit_all_are_shown_and_nothing_is_said():
    shown = choose(12, repeated=["bf16-x1"])
    assert shown.arms == {"a": NAMES}
    assert shown.heading("a") == "a"
    assert shown.sentence() == ""


def test_beyond_it_those_at_the_reference_s_learning_rate():
    shown = choose(11, repeated=["bf16-x1"])
    assert shown.arms == {"a": ["fp32-x1", "bf16-x1", "tf32-x1", "fp16-x1"]}
    assert shown.heading("a") == "a: 4 of 12 arms"
    assert shown.sentence() == (
        "Not all arms are shown but 4 of 12 of a: those at the reference's learning rate; tables/arms.csv has all."
    )


def test_beyond_it_still_one_of_those_that_are_the_same_runs():
    shown = choose(3, repeated=["bf16-x1"])
    assert shown.arms == {"a": ["fp32-x1", "tf32-x1", "fp16-x1"]}
    assert shown.rule == "those at the reference's learning rate, one of any that are the same runs"


def test_beyond_it_still_evenly_spread():
    shown = choose(2)
    assert shown.arms == {"a": ["fp32-x1", "fp16-x1"]}
    assert shown.sentence("tables/runs.csv has all") == (
        "Not all arms are shown but 2 of 12 of a: those at the reference's learning rate, thinned evenly in the order "
        "of the config; tables/runs.csv has all."
    )


def test_arms_of_other_rates_alone_are_only_thinned():
    shown = choose(2, names=["fp32-x2", "bf16-x2", "tf32-x2"])
    assert shown.arms == {"a": ["fp32-x2", "tf32-x2"]}
    assert shown.rule == "thinned evenly in the order of the config"


def test_each_workload_is_chosen_from_by_itself():
    shown = Shown.choose({"a": NAMES, "b": NAMES[:3]}, 4, PLAN, ())
    assert [len(shown.arms[workload]) for workload in "ab"] == [4, 3]
    assert [shown.heading(workload) for workload in "ab"] == ["a: 4 of 12 arms", "b"]
    assert "but 4 of 12 of a: " in shown.sentence()


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(5, 3, [0, 2, 4]), (10, 4, [0, 3, 6, 9]), (4, 4, [0, 1, 2, 3]), (500, 2, [0, 499]), (7, 1, [0])],
)
def test_spread_keeps_both_ends(count, most, expected):
    assert spread(list(range(count)), most) == expected


def test_repeats_are_named_after_the_reference_or_the_first():
    rows = [("a", arm, seed, f"{run}{seed}") for arm, run in zip("pqrs", "xyxy", strict=True) for seed in (0, 1)]
    runs = pd.DataFrame(rows, columns=["workload", "arm", "seed", "run_id"])
    assert repeats(runs, "r") == {("a", "p"): "r", ("a", "s"): "q"}


def test_rows_of_these_arms_and_of_a_table_that_has_none():
    table = pd.DataFrame({"workload": ["a", "a", "b"], "arm": ["x", "y", "x"], "gap": [1.0, 2.0, 3.0]})
    assert rows_of(table, {("a", "y"), ("b", "x")})["gap"].tolist() == [2.0, 3.0]
    assert list(rows_of(table[:0], {("a", "y")})) == ["workload", "arm", "gap"]
