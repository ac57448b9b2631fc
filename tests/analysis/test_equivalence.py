"""Each verdict from made-up losses, and what Holm's correction counts."""

import math

import numpy as np
import pandas as pd
import pytest
from made_up import every_column
from scipy import stats
from statsmodels.stats.multitest import multipletests
from typeset import typeset

from halfscale.analysis.equivalence import (
    COLUMNS,
    NoEquivalenceError,
    equivalence_table,
    equivalence_tex,
    margin_of,
    read_equivalence_table,
    write_equivalence_tables,
)
from halfscale.analysis.references import references
from halfscale.analysis.tables import gap_table
from halfscale.analysis.tost import smallest_margin
from halfscale.study.config import Study
from halfscale.study.equivalence import Equivalence, Margin
from halfscale.study.runs import plan_study
from halfscale.study.whole import write_text

SEEDS = (0, 1, 2, 3)
FP32 = [1.0, 1.2, 0.9, 1.1]
NOISE = np.array([0.001, -0.002, 0.0015, -0.0005])


def make_plan(arms, equivalence=None, workloads=("one",), seeds=SEEDS):
    """A study of arms by name; `fp32` is the reference."""
    workload = {
        "model": "transformer",
        "data": "markov",
        "batch_size": 4,
        "steps": 10,
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
    settings = {
        "study": "made-up",
        "seeds": list(seeds),
        "workloads": [workload | {"name": name} for name in workloads],
        "arms": [{"name": "fp32", "precision": "fp32"}, *arms],
        "experiments": {} if equivalence is None else {"equivalence": equivalence},
    }
    return plan_study(Study.model_validate(settings))


def make_tables(plan, losses):
    """Runs and gaps of these final losses, by workload and arm; NaN where a run diverged."""
    runs = pd.DataFrame([member.model_dump() for member in plan.members])
    by_member = {
        (workload, arm, seed): value
        for workload, arms in losses.items()
        for arm, values in arms.items()
        for seed, value in zip(plan.study.seeds, values, strict=True)
    }
    keys = zip(runs["workload"], runs["arm"], runs["seed"], strict=True)
    runs["final_loss"] = [by_member[key] for key in keys]
    runs["eval_loss"] = runs["final_loss"]
    return runs, gap_table(runs, references(plan.arms, plan.study.reference))


def table_of(arms, losses, equivalence=None, workloads=("one",), seeds=SEEDS):
    plan = make_plan(arms, equivalence or {"margin": {"nats": 0.05}}, workloads, seeds)
    return equivalence_table(plan, *make_tables(plan, losses)).set_index(["workload", "arm"])


def fp16(name, scale):
    return {"name": name, "precision": "fp16", "loss_scaling": {"kind": "static", "scale": scale}}


def verdict_of(losses, **more):
    return table_of([fp16("fp16", 8.0)], {"one": {"fp32": FP32, "fp16": losses}}, **more).loc[("one", "fp16")]


def test_columns():
    assert [*table_of([fp16("fp16", 8.0)], {"one": {"fp32": FP32, "fp16": FP32}}).reset_index()] == COLUMNS


def test_equivalent():
    row = verdict_of(FP32 + NOISE)
    assert row["verdict"] == "equivalent"
    assert (row["n"], row["of"], row["margin"], row["reference"]) == (4, 4, 0.05, "fp32")
    gaps = FP32 + NOISE - FP32
    assert row["gap"] == pytest.approx(gaps.mean())
    half = stats.t.isf(0.05, 3) * gaps.std(ddof=1) / 2
    assert (row["tost_low"], row["tost_high"]) == pytest.approx((gaps.mean() - half, gaps.mean() + half))
    assert row["low"] < row["tost_low"]
    assert row["p_tost"] == row["p_holm"] < 0.05 < row["p_different"]
    assert row["smallest_margin_sd"] == smallest_margin(4, 0.05)
    assert row["smallest_margin"] == pytest.approx(smallest_margin(4, 0.05) * gaps.std(ddof=1))


def test_a_difference_that_does_not_count_is_equivalent():
    row = verdict_of(np.add(FP32, 0.01) + NOISE)
    assert row["p_different_holm"] < 0.05
    assert row["verdict"] == "equivalent"


def test_different():
    row = verdict_of(np.add(FP32, 0.2) + NOISE)
    assert row["verdict"] == "different"
    assert row["p_tost"] > 0.999


def test_inconclusive():
    row = verdict_of(FP32 + 100 * NOISE)
    assert row["verdict"] == "inconclusive"
    assert row["smallest_margin"] > row["margin"]


def test_identical_takes_no_test():
    row = verdict_of(FP32)
    assert row["verdict"] == "identical"
    assert row[["p_tost", "p_holm", "p_different", "p_different_holm"]].isna().all()
    assert row["smallest_margin"] == 0.0


def test_one_bit_is_not_identical():
    row = verdict_of([math.nextafter(FP32[0], 2), *FP32[1:]])
    assert row["verdict"] == "equivalent"


def test_gaps_that_are_all_the_same():
    assert verdict_of(np.array([1.5, 1.5, 1.5, 1.5]), seeds=SEEDS)["verdict"] == "different"


def test_what_diverged_is_counted_and_not_called_equivalent():
    """Three blocks that would show equivalence, and one whose run diverged."""
    row = verdict_of([*(FP32 + NOISE)[:3], math.nan])
    assert (row["n"], row["of"], row["verdict"]) == (3, 4, "not comparable")
    assert row["tost_high"] < row["margin"]
    assert math.isnan(row["p_tost"])


def test_a_diverged_reference_is_counted_too():
    row = table_of([fp16("fp16", 8.0)], {"one": {"fp32": [*FP32[:3], math.nan], "fp16": FP32}}).loc[("one", "fp16")]
    assert (row["n"], row["of"], row["verdict"]) == (3, 4, "not comparable")


def test_no_verdict_rests_on_one_seed():
    losses = {"one": {"fp32": [1.0], "fp16": [1.0]}}
    row = table_of([fp16("fp16", 8.0)], losses, seeds=(0,)).loc[("one", "fp16")]
    assert row["verdict"] == "not comparable"
    assert row[["low", "tost_low", "smallest_margin", "smallest_margin_sd"]].isna().all()


def test_a_workload_with_seeds_of_its_own_has_its_own_n():
    plan = make_plan([fp16("fp16", 8.0)], {}, workloads=("one", "two"))
    few = plan.study.workloads[1].model_copy(update={"seeds": [0, 1]})
    plan = plan_study(plan.study.model_copy(update={"workloads": [plan.study.workloads[0], few]}))
    runs = pd.DataFrame([member.model_dump() for member in plan.members])
    runs["final_loss"] = np.where(runs["arm"] == "fp32", 1.0, 1.01) + 0.001 * runs["seed"] ** 2
    runs["eval_loss"] = runs["final_loss"]
    found = equivalence_table(plan, runs, gap_table(runs, references(plan.arms, "fp32")))
    assert found[["workload", "n", "of"]].to_numpy().tolist() == [["one", 4, 4], ["two", 2, 2]]


def test_holm_is_over_the_comparisons_of_a_workload_that_are_tested():
    arms = [fp16(f"arm-{index}", 2.0**index) for index in range(5)]
    factors = (1, 5, 12, 30)
    one = {"fp32": FP32, **{f"arm-{index}": FP32 + factor * NOISE for index, factor in enumerate(factors)}}
    one["arm-4"] = FP32  # identical: takes no test, and does not count
    two = {name: FP32 if name == "fp32" else FP32 + 12 * NOISE for name in one}
    found = table_of(arms, {"one": one, "two": two}, workloads=("one", "two"))
    for plain, holm in (("p_tost", "p_holm"), ("p_different", "p_different_holm")):
        own = found.loc["one"].iloc[:4]
        assert own[holm].tolist() == pytest.approx(multipletests(own[plain], method="holm")[1])
        assert own[holm].iloc[0] > own[plain].iloc[0]
    assert found.loc[("two", "arm-0"), "p_tost"] == pytest.approx(found.loc[("one", "arm-2"), "p_tost"])
    assert found.loc[("two", "arm-0"), "p_holm"] == pytest.approx(5 * found.loc[("two", "arm-0"), "p_tost"])


def test_holm_decides():
    """A comparison that would pass alone does not pass beside four like it."""
    alone = verdict_of(FP32 + 18 * NOISE)
    assert (alone["p_tost"] < 0.05, alone["verdict"]) == (True, "equivalent")
    arms = [fp16(f"arm-{index}", 2.0**index) for index in range(5)]
    losses = {"fp32": FP32, **{f"arm-{index}": FP32 + 18 * NOISE for index in range(5)}}
    assert set(table_of(arms, {"one": losses})["verdict"]) == {"inconclusive"}


def test_arms_that_are_the_same_runs_are_one_comparison():
    arms = [fp16("fp16", 8.0), fp16("again", 8.0), {"name": "fp32-again", "precision": "fp32"}]
    losses = {"fp32": FP32, "fp32-again": FP32, "fp16": FP32 + NOISE, "again": FP32 + NOISE}
    found = table_of(arms, {"one": losses})
    assert [arm for _, arm in found.index] == ["fp16", "again"]
    assert (found["p_holm"] == found["p_tost"]).all()
    assert set(found["verdict"]) == {"equivalent"}


@pytest.mark.parametrize(
    ("margin", "nats"),
    [
        ({"nats": 0.3}, 0.3),
        ({"reference_sd": 2.0}, 2.0),
        ({"nats": 0.3, "reference_sd": 2.0}, 0.3),
        ({"nats": 3.0, "reference_sd": 2.0}, 2.0),
    ],
)
def test_of_two_bounds_the_smaller_holds(margin, nats):
    """The losses 1, 2, 3 have a standard deviation of 1; a diverged run has none."""
    settings = Equivalence(margin=Margin(**margin))
    assert margin_of(settings, "one", np.array([1.0, 2.0, 3.0, math.nan])) == pytest.approx(nats)


def test_a_margin_of_a_workload_of_its_own():
    settings = Equivalence(margin_of={"two": Margin(nats=0.5)})
    assert margin_of(settings, "one", np.ones(2)) == 0.05
    assert margin_of(settings, "two", np.ones(2)) == 0.5


def test_one_seed_has_no_standard_deviation():
    assert math.isnan(margin_of(Equivalence(margin=Margin(nats=1.0, reference_sd=1.0)), "one", np.ones(1)))


def test_bca_takes_six_blocks():
    seeds = (0, 1, 2, 3, 4, 5)
    fp32 = np.linspace(1, 2, 6)
    noise = 0.01 * np.array([1, -2, 3, -1, 0.5, 0])
    row = verdict_of(FP32 + NOISE)
    assert math.isnan(row["bca_low"])
    losses = {"one": {"fp32": fp32, "fp16": fp32 + noise}}
    row = table_of([fp16("fp16", 8.0)], losses, seeds=seeds).loc[("one", "fp16")]
    assert row["low"] < row["bca_low"] < row["gap"] < row["bca_high"] < row["high"]


def test_a_study_without_a_margin_says_so():
    plan = make_plan([fp16("fp16", 8.0)])
    with pytest.raises(NoEquivalenceError, match=r"no experiments\.equivalence"):
        equivalence_table(plan, *make_tables(plan, {"one": {"fp32": FP32, "fp16": FP32}}))


def test_what_is_written_is_read_again_and_fits_the_page(tmp_path):
    plan = make_plan([fp16("fp16_a", 8.0), fp16("fp16-b", 4.0)], {})
    losses = {"fp32": FP32, "fp16_a": FP32 + NOISE, "fp16-b": [*FP32[:3], math.nan]}
    runs, gaps = make_tables(plan, {"one": losses})
    write_text(tmp_path / "plan.json", plan.to_json())
    for name, table in (("runs", runs), ("gaps", gaps)):
        write_text(tmp_path / "tables" / f"{name}.csv", every_column(name, table).to_csv(index=False))
    write_equivalence_tables(tmp_path)
    found = read_equivalence_table(tmp_path)
    assert found["verdict"].tolist() == ["equivalent", "not comparable"]
    assert list(found) == COLUMNS
    text = (tmp_path / "tables" / "equivalence.tex").read_text(encoding="utf-8")
    typeset(rf"\let\small\footnotesize {text}", tmp_path)


def test_a_study_of_the_reference_alone_compares_nothing(tmp_path):
    plan = make_plan([], {})
    runs, gaps = make_tables(plan, {"one": {"fp32": FP32}})
    write_text(tmp_path / "plan.json", plan.to_json())
    for name, table in (("runs", runs), ("gaps", gaps)):
        write_text(tmp_path / "tables" / f"{name}.csv", every_column(name, table).to_csv(index=False))
    write_equivalence_tables(tmp_path)
    found = read_equivalence_table(tmp_path)
    assert (len(found), list(found)) == (0, COLUMNS)
    typeset((tmp_path / "tables" / "equivalence.tex").read_text(encoding="utf-8"), tmp_path)


def test_the_table_of_many_seeds_fits_the_page(tmp_path):
    seeds = tuple(range(8))
    fp32 = np.linspace(1, 2, 8)
    noise = 0.001 * np.sin(np.arange(8))
    found = table_of(
        [fp16("fp16-init-2e24", 8.0)], {"one": {"fp32": fp32, "fp16-init-2e24": fp32 + noise}}, seeds=seeds
    )
    text = equivalence_tex(found.reset_index(), 0.05, "Not all arms are shown.")
    assert "BCa" in text
    typeset(rf"\let\small\footnotesize {text}", tmp_path)
