"""Means say n of N, gaps stay within blocks, and the LaTeX compiles on the page it is for."""

import math
import shutil

import numpy as np
import pytest
from made_up import make_study_folder
from typeset import typeset

from halfscale.analysis.collect import collect, read_csv, read_runs
from halfscale.analysis.tables import arm_table, arms_tex, gap_table, read_arms, runs_tex, scaling_tex, write_tables

AWKWARD = "a_b 50% #1 & {x}"


@pytest.fixture(scope="module")
def study(finished_study, tmp_path_factory):
    folder = shutil.copytree(finished_study, tmp_path_factory.mktemp("tables") / "made-up")
    collect(folder)
    write_tables(folder)
    return folder


@pytest.fixture
def runs(study):
    return read_runs(study)


def gaps_to_fp32(runs):
    return gap_table(runs, dict.fromkeys(runs["arm"], "fp32"))


def with_losses(runs, losses):
    """Return the runs of the transformer's fp32 and bf16 arms, bf16's with these final losses and fp32's at 0.5."""
    runs = runs[(runs["workload"] == "transformer") & runs["arm"].isin(["fp32", "bf16"])].copy()
    runs.loc[runs["arm"] == "fp32", ["final_loss", "eval_loss"]] = 0.5
    for name in ("final_loss", "eval_loss"):
        runs.loc[runs["arm"] == "bf16", name] = losses
    runs.loc[runs["final_loss"].isna(), "status"] = "diverged"
    return runs


def arm_row(runs, arm, workload="transformer"):
    arms = arm_table(runs, gaps_to_fp32(runs))
    return arms.set_index(["workload", "arm"]).loc[(workload, arm)]


def tex_row(table, arm):
    """Return the cells of an arm's only row."""
    rows = [line for line in table.splitlines() if line.startswith(f"{arm} &")]
    assert len(rows) == 1
    return [cell.strip() for cell in rows[0].removesuffix(r"\\").split(" & ")]


def test_two_of_three_seeds(runs):
    """1.0, 3.0 and a diverged run: 2.0 over 2, 1 of 3 diverged."""
    runs = with_losses(runs, [1.0, 3.0, math.nan])
    row = arm_row(runs, "bf16")
    assert (row["final_loss"], row["n"], row["completed"], row["diverged"]) == (2.0, 3, 2, 1)
    assert (row["gap"], row["gap_n"]) == (1.5, 2)
    cells = tex_row(arms_tex(arm_table(runs, gaps_to_fp32(runs)), "fp32"), "bf16")
    assert cells[2:4] == ["$2/3$", "$2.00$"]


def test_no_seed_of_three(runs):
    """all diverged: a dash, and 0 of 3."""
    runs = with_losses(runs, [math.nan] * 3).assign(final_excess=math.nan, eval_accuracy=math.nan)
    row = arm_row(runs, "bf16")
    assert (row["n"], row["completed"], row["diverged"], row["gap_n"]) == (3, 0, 3, 0)
    assert row[["final_loss", "final_loss_low", "final_loss_high", "gap", "gap_low", "gap_high"]].isna().all()
    cells = tex_row(arms_tex(arm_table(runs, gaps_to_fp32(runs)), "fp32"), "bf16")
    assert cells[2:] == ["$0/3$"] + ["--"] * 6


def test_a_diverged_reference_leaves_no_gap_in_its_block(runs):
    runs = with_losses(runs, [1.0, 3.0, 2.0])
    reference = (runs["arm"] == "fp32") & (runs["seed"] == 1)
    runs.loc[reference, ["final_loss", "eval_loss"]] = math.nan
    gaps = gaps_to_fp32(runs)
    assert gaps["gap"].fillna(-1).tolist() == [0.5, -1, 1.5]
    assert gaps["eval_gap"].fillna(-1).tolist() == [0.5, -1, 1.5]
    assert (arm_row(runs, "bf16")["gap"], arm_row(runs, "bf16")["gap_n"]) == (1.0, 2)


def test_the_reference_has_no_gap_to_itself(study, runs):
    assert "fp32" not in set(gaps_to_fp32(runs)["arm"])
    reference = read_arms(study).query("arm == 'fp32'")
    assert reference[["gap", "gap_low", "gap_high", "gap_n"]].isna().all(axis=None)


def test_gaps_are_those_made_up(study):
    """Arm number i is 0.002 i (1 + seed / 4) nats above the reference."""
    gaps = read_csv(study / "tables" / "gaps.csv").query("arm == 'fp16' and workload == 'transformer'")
    np.testing.assert_allclose(gaps["gap"], [0.006, 0.0075, 0.009], rtol=1e-9)
    np.testing.assert_allclose(gaps["eval_gap"], gaps["gap"], rtol=1e-9)


def test_one_row_an_arm_in_config_order(study, runs):
    arms = read_arms(study)
    assert list(zip(arms["workload"], arms["arm"], strict=True)) == list(
        dict.fromkeys(zip(runs["workload"], runs["arm"], strict=True))
    )
    assert "bf16-scaled" not in set(arms.query("workload == 'resnet50'")["arm"])


def test_counts_are_totals_over_all_runs(study, runs):
    """Diverged ones included: their steps were run."""
    arms = read_arms(study).set_index(["workload", "arm"])
    row = arms.loc[("resnet50", "fp16-unscaled")]
    assert (row["steps"], row["diverged"]) == (40 + 21 + 40, 1)
    own = runs.query("workload == 'transformer' and arm == 'fp16'")
    assert arms.loc[("transformer", "fp16"), "skipped"] == own["skipped"].sum() > 0
    assert (arms["updates"] + arms["skipped"] == arms["steps"]).all()
    causes = ["skipped_calibration", "skipped_growth_probe", "skipped_sporadic"]
    assert (arms[causes].sum(axis="columns") == arms["skipped"]).all()


def test_final_scale_is_one_that_a_run_had(runs):
    own = (runs["workload"] == "transformer") & (runs["arm"] == "fp16")
    runs.loc[own, "final_scale"] = [2.0**15, 2.0**14, 2.0**13]
    runs.loc[own & (runs["seed"] == 2), "status"] = "diverged"
    assert arm_row(runs, "fp16")["final_scale"] == 2.0**14


def test_one_seed_has_means_and_no_intervals(tmp_path):
    make_study_folder(tmp_path, seeds=[7], diverged={"fp16": [7]})
    collect(tmp_path)
    write_tables(tmp_path)
    arms = read_arms(tmp_path)
    assert arms["n"].unique().tolist() == [1]
    assert arms["final_loss"].notna().sum() == len(arms) - 1
    assert arms[["final_loss_low", "final_loss_high", "gap_low", "gap_high"]].isna().all(axis=None)


def test_only_the_reference(tmp_path):
    make_study_folder(tmp_path, arms=["fp32"])
    collect(tmp_path)
    write_tables(tmp_path)
    assert (tmp_path / "tables" / "gaps.csv").read_text() == "workload,arm,seed,gap,eval_gap\n"
    assert len(read_arms(tmp_path)) == 2


def test_same_bytes_on_every_repeat(study):
    tables = study / "tables"
    first = {path.name: path.read_bytes() for path in tables.iterdir()}
    assert sorted(first) == ["arms.csv", "arms.tex", "gaps.csv", "runs.csv", "runs.tex", "scaling.tex", "survival.csv"]
    write_tables(study)
    assert {path.name: path.read_bytes() for path in tables.iterdir()} == first


@pytest.mark.parametrize("name", ["runs", "arms", "scaling"])
def test_tables_compile_and_fit_the_page(study, name, tmp_path):
    typeset((study / "tables" / f"{name}.tex").read_text(), tmp_path)


def test_awkward_names_and_values_compile_and_fit_the_page(runs, tmp_path):
    """With the longest names that sweeps make, tiny gaps and wide intervals."""
    long = "scaler_init_scale-2e24_growth_interval-2000_backoff_factor-0.25"
    runs = runs.replace({"arm": {"fp16": AWKWARD, "bf16": "lr0.001", "fp16-init-2e24": long}})
    runs["workload"] = runs["workload"].replace({"resnet50": "res_net 50% & {y}"})
    runs.loc[runs["arm"] == long, "final_loss"] *= [4, 1, 3] * 2
    runs.loc[runs["arm"] == "lr0.001", "final_excess"] = [math.nan] * 3 + [3e-8, -3e-8, math.inf]
    runs.loc[runs["arm"] == "fp32-ulp", "final_loss"] = (
        runs.loc[runs["arm"] == "fp32", "final_loss"].to_numpy() + [1e-7, -2e-5, 0] * 2
    )
    runs.loc[runs["arm"] == "fp16_injected", "final_scale"] = 1000.0
    arms = arm_table(runs, gaps_to_fp32(runs))
    tables = runs_tex(runs) + arms_tex(arms, "fp32") + scaling_tex(arms)
    assert r"res\_net 50\% \& \{y\}" in tables
    assert r"$-3.0\times10^{-8}$" in tables
    assert r"$\infty$" in tables
    typeset(tables, tmp_path)


def test_units_stand_under_the_headings(study):
    heads = [(study / "tables" / f"{name}.tex").read_text() for name in ("runs", "arms", "scaling")]
    assert [r"Loss & Excess \\" in head and r"(nats) & (nats) \\" in head for head in heads] == [True, False, False]
    assert r"Gap & 95\,\% interval \\" in heads[1]
    assert r"(\%) & (nats) & (nats) \\" in heads[1]
    assert "(steps)" in heads[2]


def test_a_fallback_is_marked_and_explained(study):
    text = (study / "tables" / "arms.tex").read_text()
    assert r"fp32$^\dagger$" in text
    assert "the device has no such precision" in text


def test_no_fallback_no_note(tmp_path):
    make_study_folder(tmp_path, arms=["fp32", "bf16"])
    collect(tmp_path)
    write_tables(tmp_path)
    assert "dagger" not in (tmp_path / "tables" / "arms.tex").read_text()


def test_a_run_says_where_it_diverged(study):
    lines = (study / "tables" / "runs.tex").read_text().splitlines()
    assert sum("diverged at~$20$" in line for line in lines) == 4


def test_scales_are_powers_of_two(study):
    """The transformer's bf16-scaled arm grows 12 times from 2^16."""
    cells = tex_row((study / "tables" / "scaling.tex").read_text(), r"bf16-\allowbreak{}scaled")
    assert cells[1:7] == ["dynamic", "$2^{16}$", "$5$", "$2$", "$0.5$", "$2^{28}$"]


def test_missing_runs_csv_is_named(finished_study, tmp_path):
    shutil.copy(finished_study / "plan.json", tmp_path)
    with pytest.raises(OSError, match=r"runs\.csv"):
        write_tables(tmp_path)


def test_nothing_to_scale_compiles(runs, tmp_path):
    arms = arm_table(runs, gaps_to_fp32(runs))
    table = scaling_tex(arms[arms["arm"] == "fp32"])
    assert "fp32" not in table
    typeset(table, tmp_path)


def test_a_long_table_shows_as_many_arms_as_can_be_read_and_names_the_file_of_all(tmp_path, monkeypatch):
    """Of ten arms four, evenly spread; of their runs, over three seeds, four are of one arm."""
    monkeypatch.setattr("halfscale.analysis.tables.MOST_ROWS", 4)
    make_study_folder(tmp_path)
    collect(tmp_path)
    write_tables(tmp_path)
    assert len(read_arms(tmp_path)) == 9 + 10
    arms, scaling, runs = ((tmp_path / "tables" / f"{name}.tex").read_text() for name in ("arms", "scaling", "runs"))
    kept = ["fp32", "fp16", r"fp16-\allowbreak{}static-\allowbreak{}2e10", r"bf16-\allowbreak{}scaled"]
    assert [line.split(" & ")[0] for line in arms.splitlines() if " & $3/3$ & " in line][-4:] == kept
    assert "Not all arms are shown but 4 of 9 of resnet50, 4 of 10 of transformer: thinned evenly" in arms
    assert "in the order of the config; tables/arms.csv has all." in arms
    assert "tables/arms.csv has all." in scaling
    assert len([line for line in runs.splitlines() if line.startswith("fp32 & ")]) == 2 * 3
    assert not [line for line in runs.splitlines() if line.startswith("fp16 & ")]
    assert r"\caption{Runs. " in runs
    assert "1 of 9 of resnet50" in runs
    assert "tables/runs.csv has all." in runs


def test_a_table_that_can_be_read_is_whole(study):
    for name in ("arms", "scaling", "runs"):
        assert "Not all arms are shown" not in (study / "tables" / f"{name}.tex").read_text()
