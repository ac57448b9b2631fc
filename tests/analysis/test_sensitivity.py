"""Learning-rate sensitivity of made-up losses, by hand; and only where a study sweeps the rate."""

import math
from typing import Any

import pandas as pd
import pytest
from made_up import every_column
from typeset import typeset

from halfscale.analysis.collect import read_csv
from halfscale.analysis.columns import COLUMNS
from halfscale.analysis.rates import families, has_sweep, swept
from halfscale.analysis.sensitivity import (
    NoSweepError,
    read_sensitivity_table,
    run_table,
    sensitivity_table,
    write_sensitivity_tables,
)
from halfscale.study.config import Study
from halfscale.study.runs import plan_study
from halfscale.study.whole import write_text

RATES = [0.1, 1, 10]
INITIAL = 4.0
SWEEP = {"name": "rate", "base": "fp32", "over": {"precision": ["fp32", "fp16"], "lr_factor": RATES}}


def make_plan(sweeps=(SWEEP,), arms=(), seeds=(0, 1)):
    settings: dict[str, Any] = {
        "study": "made-up",
        "seeds": list(seeds),
        "workloads": [
            {
                "name": "one",
                "model": "transformer",
                "data": "markov",
                "batch_size": 4,
                "steps": 10,
                "optimizer": {"name": "sgd", "lr": 0.02},
            }
        ],
        "arms": [{"name": "fp32", "precision": "fp32"}, *arms],
        "sweeps": list(sweeps),
    }
    return plan_study(Study.model_validate(settings))


def make_runs(plan, losses):
    """Runs with the losses of each seed by precision and rate; NaN where a run diverged."""
    arms = {arm.name: arm for arm in plan.arms}
    runs = pd.DataFrame([member.model_dump() for member in plan.members])
    runs["precision"] = [arms[name].precision for name in runs["arm"]]
    runs["final_loss"] = [
        losses[precision][arms[name].lr_factor][seed]
        for precision, name, seed in zip(runs["precision"], runs["arm"], runs["seed"], strict=True)
    ]
    runs["status"] = ["diverged" if math.isnan(loss) else "completed" for loss in runs["final_loss"]]
    return runs.assign(initial_loss=INITIAL)


LOSSES = {
    "fp32": {0.1: [3.0, 3.2], 1: [2.0, 2.2], 10: [2.5, 2.4]},
    "fp16": {0.1: [3.0, 3.2], 1: [2.0, 2.2], 10: [math.nan, 9.0]},
}
"""FP16 diverges at the highest rate with one seed, and with the other ends above its initial loss of 4."""


def test_families_differ_in_their_rate_alone():
    plan = make_plan(arms=[{"name": "ulp", "precision": "fp32", "perturb": "ulp"}])
    assert families(plan.arms) == [
        {1.0: "fp32", 0.1: "rate_precision-fp32_lr_factor-0.1", 10.0: "rate_precision-fp32_lr_factor-10"},
        {1.0: "ulp"},
        {rate: f"rate_precision-fp16_lr_factor-{rate:g}" for rate in (0.1, 1.0, 10.0)},
    ]
    assert [min(family) for family in swept(plan, "one")] == [0.1, 0.1]
    assert has_sweep(plan)


def test_a_family_that_lacks_a_rate_is_not_compared():
    other = {"name": "bf16", "base": "fp32", "over": {"precision": ["bf16"], "lr_factor": [1, 10]}}
    plan = make_plan(sweeps=[SWEEP, other])
    assert len(families(plan.arms)) == 3
    assert len(swept(plan, "one")) == 2


def test_more_rates_than_the_reference_has_do_not_count():
    more = {"name": "more", "base": "fp32", "over": {"precision": ["fp16"], "lr_factor": [100]}}
    assert [list(family) for family in swept(make_plan(sweeps=[SWEEP, more]), "one")] == [[0.1, 1, 10]] * 2


@pytest.mark.parametrize("rates", [[1], [1, 10]])
def test_without_a_sweep_of_the_reference_there_is_no_table(rates):
    sweeps = [SWEEP | {"over": {"precision": ["fp32"], "lr_factor": rates}}]
    sweeps += [{"name": "other", "base": "fp32", "over": {"precision": ["fp16"], "lr_factor": RATES}}]
    plan = make_plan(sweeps=sweeps)
    assert not has_sweep(plan)
    with pytest.raises(NoSweepError, match="no sweep: its reference is trained at fewer than 3 learning rates"):
        run_table(plan, make_runs(plan, LOSSES))


def test_by_hand():
    """Seed 0, FP32: mean(3, 2, 2.5) - 2 = 0.5; seed 1: mean(3.2, 2.2, 2.4) - 2.2 = 0.4. FP16, with 4 in place of what
    diverged and of what ended above it: mean(3, 2, 4) - 2 = 1 and mean(3.2, 2.2, 4) - 2.2 = 0.9333."""
    plan = make_plan()
    table = sensitivity_table(run_table(plan, make_runs(plan, LOSSES))).set_index("precision")
    assert table.loc["fp32", "sensitivity"] == pytest.approx(0.45)
    assert table.loc["fp16", "sensitivity"] == pytest.approx((1 + 2.8 / 3) / 2)
    half = 12.7062 * 0.1 / math.sqrt(2) / math.sqrt(2)
    assert table.loc["fp32", "high"] == pytest.approx(0.45 + half, abs=1e-5)
    assert table.loc["fp16", "excess"] == pytest.approx((0.5 + 2.8 / 3 - 0.4) / 2)
    assert math.isnan(table.loc["fp32", "excess"])
    assert table["arm"].tolist() == ["fp32", "rate_precision-fp16_lr_factor-1"]
    assert table["diverged"].tolist() == [0, 1]
    assert table["runs"].tolist() == [6, 6]
    assert table.loc["fp16", ["best_lr", "best_loss", "n", "of"]].tolist() == pytest.approx([0.02, 2.1, 2, 2])
    assert table.loc["fp16", ["lowest_lr", "highest_lr"]].tolist() == pytest.approx([0.002, 0.2])


def test_a_seed_of_which_nothing_completed_has_no_best_loss():
    plan = make_plan()
    losses = LOSSES | {"fp16": {0.1: [math.nan, 3.2], 1: [math.nan, 2.2], 10: [math.nan, 2.2]}}
    row = sensitivity_table(run_table(plan, make_runs(plan, losses))).set_index("precision").loc["fp16"]
    assert (row["n"], row["of"], row["diverged"]) == (1, 2, 3)
    assert row["sensitivity"] == pytest.approx(1 / 3)
    assert math.isnan(row["low"])


def test_an_arm_that_always_diverges_is_not_called_insensitive():
    plan = make_plan()
    losses = LOSSES | {"fp16": {key: [math.nan, math.nan] for key in (0.1, 1, 10)}}
    row = sensitivity_table(run_table(plan, make_runs(plan, losses))).set_index("precision").loc["fp16"]
    assert row[["sensitivity", "excess", "best_lr", "best_loss"]].isna().all()
    assert (row["n"], row["diverged"]) == (0, 6)


def test_what_is_written_is_read_again_and_fits_the_page(tmp_path):
    plan = make_plan()
    write_text(tmp_path / "plan.json", plan.to_json())
    write_text(tmp_path / "tables" / "runs.csv", every_column("runs", make_runs(plan, LOSSES)).to_csv(index=False))
    write_sensitivity_tables(tmp_path)
    assert read_sensitivity_table(tmp_path)["sensitivity"].round(3).tolist() == [0.45, 0.967]
    losses = read_csv(tmp_path / "tables" / "sensitivity_runs.csv")
    for name in ("sensitivity", "sensitivity_runs"):
        assert read_csv(tmp_path / "tables" / f"{name}.csv").columns.tolist() == COLUMNS[name].split()
    assert losses.loc[losses["precision"] == "fp16", "loss"].tolist() == [3.0, 3.2, 2.0, 2.2, 4.0, 4.0]
    text = (tmp_path / "tables" / "sensitivity.tex").read_text(encoding="utf-8")
    typeset(rf"\let\small\footnotesize {text}", tmp_path)
