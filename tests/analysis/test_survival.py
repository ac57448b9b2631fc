"""Kaplan-Meier curves against a worked example, by hand."""

import math

import pandas as pd
import pytest

from halfscale.analysis.survival import survival_table

FREIREICH = (
    {6: (3, 1), 7: (1, 0), 9: (0, 1), 10: (1, 1), 11: (0, 1), 13: (1, 0), 16: (1, 0)}
    | {17: (0, 1), 19: (0, 1), 20: (0, 1), 22: (1, 0), 23: (1, 0)}
    | {25: (0, 1), 32: (0, 2), 34: (0, 1), 35: (0, 1)}
)
"""Weeks of remission of the 21 treated patients of Freireich et al. (1963): by week, relapses and censored patients."""


def make_runs(outcomes, arm="fp16", steps=100, workload="one"):
    """Runs by (step, cause) of their first instability, or None."""
    return pd.DataFrame(
        {
            "workload": workload,
            "arm": arm,
            "steps": [
                steps if outcome is None or outcome[1] != "divergence" else outcome[0] + 1 for outcome in outcomes
            ],
            "first_instability": pd.array([outcome and outcome[0] for outcome in outcomes], dtype="Int64"),
            "instability": pd.array([outcome and outcome[1] for outcome in outcomes], dtype="str"),
        }
    )


def test_the_worked_example_of_every_textbook():
    runs = pd.concat(
        [
            make_runs([(week - 1, "spike")] * relapsed + [None] * censored, steps=week)
            for week, (relapsed, censored) in FREIREICH.items()
        ]
    )
    assert len(runs) == 21
    table = survival_table(runs).set_index("steps")
    expected = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
    for week, share in expected.items():
        assert table.loc[week, "surviving"] == pytest.approx(share, abs=5e-4)
    assert table.loc[6, "surviving_se"] == pytest.approx(0.0764, abs=5e-5)
    assert table.loc[35, "surviving"] == table.loc[23, "surviving"]
    assert table["at_risk"].tolist() == [21, 21, 17, 16, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 2, 1]


def test_by_hand():
    """Three runs: one unstable at its 10th step, one at its 50th, one never. 2/3 and then 1/3 of them are left."""
    table = survival_table(make_runs([(9, "growth_probe"), (49, "divergence"), None]))
    assert list(table) == [
        *("workload", "arm", "steps", "at_risk", "divergence", "sporadic", "growth_probe", "spike"),
        *("censored", "surviving", "surviving_se"),
    ]
    rows = table.drop(columns=["workload", "arm", "surviving", "surviving_se"]).to_numpy().tolist()
    assert rows == [
        [0, 3, 0, 0, 0, 0, 0],
        [10, 3, 0, 0, 1, 0, 0],
        [50, 2, 1, 0, 0, 0, 0],
        [100, 1, 0, 0, 0, 0, 1],
    ]
    assert table["surviving"].tolist() == pytest.approx([1, 2 / 3, 1 / 3, 1 / 3])


def test_an_arm_to_which_nothing_happened_stays_at_one():
    table = survival_table(make_runs([None, None]))
    assert table[["steps", "at_risk", "censored", "surviving"]].to_numpy().tolist() == [
        [0, 2, 0, 1.0],
        [100, 2, 2, 1.0],
    ]


def test_an_arm_all_of_whose_runs_became_unstable_ends_at_zero():
    table = survival_table(make_runs([(0, "sporadic"), (0, "spike")]))
    assert table["steps"].tolist() == [0, 1]
    assert table["surviving"].tolist() == [1.0, 0.0]
    assert math.isnan(table["surviving_se"].iloc[-1])


def test_what_happens_in_the_last_step_happens_before_the_run_is_censored():
    table = survival_table(make_runs([(99, "sporadic"), None]))
    assert table[["steps", "at_risk", "sporadic", "censored", "surviving"]].to_numpy().tolist()[-1] == [
        100,
        2,
        1,
        1,
        0.5,
    ]


def test_arms_and_workloads_have_curves_of_their_own_in_the_order_of_the_runs():
    parts = [("two", "b"), ("two", "a"), ("one", "b")]
    table = survival_table(pd.concat([make_runs([None], arm=arm, workload=where) for where, arm in parts]))
    assert list(dict.fromkeys(zip(table["workload"], table["arm"], strict=True))) == parts
