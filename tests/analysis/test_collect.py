"""What is collected is complete, in order and the same on every repeat; what does not fit is refused by name."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_up import DIVERGED, make_study_folder, make_trace, write_run

from halfscale.analysis.collect import (
    TRACES,
    collect,
    count_events,
    read_csv,
    read_plan,
    read_runs,
    trace_table,
    write_csv,
    write_traces,
)
from halfscale.analysis.skips import skip_causes
from halfscale.study.records import RecordError, Summary, read_trace, write_summary
from halfscale.study.runs import member_specs


@pytest.fixture(scope="module")
def study(finished_study, tmp_path_factory):
    """The finished study, collected: read it only."""
    folder = shutil.copytree(finished_study, tmp_path_factory.mktemp("collect") / "made-up")
    collect(folder)
    return folder


@pytest.fixture(scope="module")
def few_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few") / "made-up"
    make_study_folder(folder, seeds=[0], arms=["fp32", "bf16", "fp16", "fp16-init-2e24", "fp16-static-2e10"])
    return folder


@pytest.fixture
def small(few_runs, tmp_path):
    """A small study to be changed."""
    return shutil.copytree(few_runs, tmp_path / "made-up")


def first_run(folder, arm):
    """Return the spec and folder of an arm's first run."""
    member, spec = next(pair for pair in member_specs(read_plan(folder)) if pair[0].arm == arm)
    return spec, folder / "runs" / member.run_id


def edit_summary(run, **changes):
    """Write a run's summary anew with these changes, sealed as if the run had written it so."""
    path = run / "summary.json"
    summary = json.loads(path.read_text())
    for key, value in changes.items():
        if isinstance(value, dict):
            summary[key] |= value
        else:
            summary[key] = value
    write_summary(Summary.model_validate_json(json.dumps(summary)), path)


def test_one_row_a_member_in_config_order(study):
    runs = read_runs(study)
    members = [(member.workload, member.arm, member.seed, member.run_id) for member in read_plan(study).members]
    assert list(runs[["workload", "arm", "seed", "run_id"]].itertuples(index=False, name=None)) == members


def test_columns(study):
    header = (study / "tables" / "runs.csv").read_text().splitlines()[0]
    assert header == (
        "workload,arm,seed,run_id,status,precision,fell_back,device,backend,loss_scaling,init_scale,growth_factor,"
        "backoff_factor,growth_interval,steps,updates,skipped,skipped_calibration,skipped_growth_probe,"
        "skipped_sporadic,overflows,growths,backoffs,final_scale,initial_loss,final_loss,final_excess,floor,"
        "eval_loss,eval_excess,eval_accuracy,first_bad_step,bad_where,first_instability,instability"
    )


def test_a_row_is_the_summary(study):
    spec, folder = first_run(study, "fp16")
    summary = json.loads((folder / "summary.json").read_text())
    row = read_runs(study).set_index("run_id").loc[spec.run_id]
    for name in ("steps", "updates", "skipped", "final_scale", "initial_loss", "final_loss", "eval_loss"):
        assert row[name] == summary[name]
    assert (row["init_scale"], row["growth_factor"], row["backoff_factor"], row["growth_interval"]) == (
        65536,
        2,
        0.5,
        5,
    )
    assert row["skipped_calibration"] + row["skipped_growth_probe"] + row["skipped_sporadic"] == row["skipped"] > 0


def test_an_unscaled_run_has_no_scale(study):
    """Not 1.0, which would be averaged in as if it were one."""
    runs = read_runs(study)
    scales = ["init_scale", "final_scale", "growth_factor", "backoff_factor", "growth_interval"]
    assert runs.loc[runs["loss_scaling"] == "none", scales].isna().all(axis=None)
    assert runs.loc[runs["loss_scaling"] == "dynamic", scales].notna().all(axis=None)
    static = runs[runs["loss_scaling"] == "static"]
    assert static[["init_scale", "final_scale"]].notna().all(axis=None)
    assert static[["growth_factor", "backoff_factor", "growth_interval"]].isna().all(axis=None)


def test_a_fallback_says_so(study):
    runs = read_runs(study).query("arm == 'bf16-fallback'")
    assert runs["precision"].unique().tolist() == ["fp32"]
    assert runs["fell_back"].all()


def test_a_diverged_run_is_a_row_like_any_other(study):
    bad = read_runs(study).query("status == 'diverged'")
    assert sorted(zip(bad["arm"], bad["seed"], strict=True)) == sorted(
        (arm, seed) for arm, seeds in DIVERGED.items() for seed in seeds
    )
    assert bad["final_loss"].isna().all()
    assert bad["first_bad_step"].tolist() == [20] * 4
    assert bad["bad_where"].tolist() == ["loss"] * 4


def test_traces_hold_every_step(study):
    file = pq.ParquetFile(study / "traces.parquet")
    plan = read_plan(study)
    assert file.schema_arrow.equals(TRACES, check_metadata=False)
    traces = file.read().to_pandas()
    start = 0
    for member, spec in member_specs(plan):
        trace = read_trace(study / "runs" / member.run_id / "trace.parquet", spec)
        rows = traces.iloc[start : start + len(trace)].reset_index(drop=True)
        assert set(zip(rows["workload"], rows["arm"], rows["seed"], strict=True)) == {
            (member.workload, member.arm, member.seed)
        }
        pd.testing.assert_frame_equal(rows[trace.columns], trace)
        assert rows["skip_cause"].notna().equals(trace["skipped"])
        start += len(trace)
    assert start == len(traces)


def test_traces_are_written_in_groups_of_whole_runs(study, tmp_path, monkeypatch):
    """Few enough groups for the file's index to stay small, small enough for memory not to grow with the study."""
    whole = pq.read_table(study / "traces.parquet")
    lengths = [
        len(rows) for _, rows in whole.to_pandas().groupby(["workload", "arm", "seed"], sort=False, observed=True)
    ]
    tables, start = [], 0
    for length in lengths:
        tables.append(whole.slice(start, length))
        start += length
    monkeypatch.setattr("halfscale.analysis.collect.ROW_GROUP", lengths[0] + lengths[1])
    write_traces(tmp_path / "traces.parquet", iter(tables))
    file = pq.ParquetFile(tmp_path / "traces.parquet")
    assert file.metadata.row_group(0).num_rows == lengths[0] + lengths[1]
    assert file.num_row_groups > 1
    pd.testing.assert_frame_equal(file.read().to_pandas(), whole.to_pandas())


def test_a_diverged_loss_stays_nan(study):
    """A NaN loss is what was measured; it is not missing."""
    member, spec = next(member_specs(read_plan(study)))
    trace = make_trace(spec, with_oracle=True)
    trace.loc[3, "loss"] = np.nan
    table = trace_table(member, trace, skip_causes(trace))
    assert table["loss"].null_count == 0
    assert np.isnan(table["loss"][3].as_py())
    assert table["scale"].null_count == len(trace)


def test_arms_that_are_one_run_are_two_members(tmp_path, monkeypatch):
    from made_up import SETTINGS

    twin = {"name": "fp32-scaled", "precision": "fp32", "loss_scaling": {"kind": "static", "scale": 8.0}}
    monkeypatch.setitem(SETTINGS, "arms", [*SETTINGS["arms"][:1], twin])
    plan = make_study_folder(tmp_path)
    collect(tmp_path)
    runs = read_runs(tmp_path)
    assert len(plan.members) == 2 * len(plan.runs) == len(runs)
    assert runs.groupby("run_id")["arm"].apply(list).tolist() == [["fp32", "fp32-scaled"]] * len(plan.runs)


def test_same_bytes_on_every_repeat(small):
    collect(small)
    first = [(small / name).read_bytes() for name in ("tables/runs.csv", "traces.parquet")]
    for path in small.glob("runs/*/summary.json"):
        edit_summary(path.parent, seconds=123.0)
    collect(small)
    assert [(small / name).read_bytes() for name in ("tables/runs.csv", "traces.parquet")] == first


def refused(folder, *words):
    """Collect, expecting a refusal whose message holds these words, and nothing written."""
    with pytest.raises(RecordError) as error:
        collect(folder)
    for word in words:
        assert word in str(error.value)
    assert not (folder / "traces.parquet").exists()
    assert not (folder / "tables" / "runs.csv").exists()


def test_a_missing_plan_is_refused(tmp_path):
    refused(tmp_path, "plan.json", "is not there")


def test_a_broken_plan_is_refused(small):
    (small / "plan.json").write_text("{}")
    refused(small, "plan.json", "is no plan")


def test_a_plan_of_another_version_is_refused(small):
    """Its runs are called otherwise than this version would call them."""
    spec, _ = first_run(small, "bf16")
    path = small / "plan.json"
    path.write_text(path.read_text().replace(spec.run_id, "resnet50_bf16_seed0_0000000000"))
    refused(small, "plan.json", f"resnet50_bf16_seed0_0000000000 is now {spec.run_id}; plan the study anew")


def test_a_missing_run_is_refused(small):
    _, run = first_run(small, "bf16")
    shutil.rmtree(run)
    refused(small, str(run), "cannot be read")


def test_a_cut_trace_is_refused(small):
    _, run = first_run(small, "bf16")
    path = run / "trace.parquet"
    path.write_bytes(path.read_bytes()[:-10])
    refused(small, str(path), "no whole trace")


def test_another_specs_run_is_refused(small):
    _, run = first_run(small, "bf16")
    _, other = first_run(small, "fp32")
    shutil.copytree(other, run, dirs_exist_ok=True)
    refused(small, str(run), "another spec")


def test_a_trace_that_its_summary_was_not_made_from_is_refused(small):
    """The same spec, counts and steps, yet another file."""
    spec, run = first_run(small, "bf16")
    before = (run / "summary.json").read_bytes()
    write_run(run, spec, make_trace(spec, offset=0.5))
    (run / "summary.json").write_bytes(before)
    refused(small, str(run), "is not the trace that its summary was made from")


@pytest.mark.parametrize(
    ("arm", "first", "changes"),
    [
        ("fp16-static-2e10", "steps", {"steps": 1, "updates": 1}),
        ("fp16", "updates", {"updates": 1, "skipped": -1}),
        ("fp16", "overflows", {"overflows": 1}),
        ("fp16", "growths", {"growths": 1}),
        ("fp16", "backoffs", {"backoffs": -1}),
    ],
)
def test_a_summary_that_miscounts_is_refused(small, arm, first, changes):
    """Even one whose own numbers add up."""
    _, run = first_run(small, arm)
    summary = json.loads((run / "summary.json").read_text())
    edit_summary(run, **{count: summary[count] + change for count, change in changes.items()})
    right = summary[first]
    refused(small, str(run), f"has {right} {first}, but its summary says {right + changes[first]}")


def test_each_event_is_counted_apart():
    trace = pd.DataFrame(
        {
            "overflow": [1, 1, 1, 1, 0, 0],
            "skipped": [1, 1, 1, 0, 0, 0],
            "backoff": [1, 1, 0, 0, 0, 0],
            "growth": [0, 0, 0, 0, 1, 0],
            "updates": [0, 0, 0, 1, 2, 3],
        }
    )
    assert count_events(trace) == {
        "steps": 6,
        "updates": 3,
        "skipped": 3,
        "overflows": 4,
        "growths": 1,
        "backoffs": 2,
    }


@pytest.mark.parametrize(
    ("what", "arm", "change"),
    [
        ("device", "fp16-init-2e24", {"device": "cuda"}),
        ("FP16 backend", "fp16-init-2e24", {"backend": "native"}),
        ("BF16 backend", "bf16", {"backend": "upcast"}),
        ("workload 'resnet50': data", "fp16-init-2e24", {"data": "0" * 64}),
    ],
)
def test_runs_that_must_not_be_compared_are_refused(small, what, arm, change):
    spec, run = first_run(small, arm)
    key = next(iter(change))
    old = json.loads((run / "summary.json").read_text())["effective"][key]
    edit_summary(run, effective=change)
    refused(small, what, f"{spec.run_id} has {change[key]}", f"has {old}")


def test_csv_reads_back_exactly(tmp_path):
    """Floats to the last bit, names that look like numbers or like nothing, and no word for what is not there."""
    table = pd.DataFrame(
        {
            "workload": ["010", "none"],
            "arm": ["NA", "nan"],
            "loss": [0.1 + 0.2, 5e-324],
            "excess": [np.nan, 1e300],
            "growth_interval": [None, 20],
        }
    )
    write_csv(tmp_path / "t.csv", table)
    assert (tmp_path / "t.csv").read_bytes() == (
        b"workload,arm,loss,excess,growth_interval\n010,NA,0.30000000000000004,,\nnone,nan,5e-324,1e+300,20\n"
    )
    back = read_csv(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(back, table.astype({"growth_interval": "Int64"}))


def test_trace_names_are_dictionary_encoded():
    assert all(pa.types.is_dictionary(TRACES.field(name).type) for name in ("workload", "arm", "skip_cause"))


@pytest.mark.parametrize("text", ["", "workload,steps\na,1\nb,", "steps\n1,2\n3,4,5\n", "first_bad_step\nsoon\n"])
def test_a_table_that_is_not_whole_is_refused_by_name(tmp_path, text):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=r"t\.csv: is no whole table: .*; delete it to have it made again"):
        read_csv(tmp_path / "t.csv")


def test_a_table_that_lacks_a_column_is_refused_by_name(tmp_path):
    path = tmp_path / "tables" / "gaps.csv"
    write_csv(path, pd.DataFrame([["transformer", "fp16", 0, 0.5]], columns=["workload", "arm", "seed", "eval_gap"]))
    with pytest.raises(RecordError, match=r"gaps\.csv: lacks the column 'gap'; delete it to have it made again$"):
        read_csv(path)


def test_a_table_that_no_study_has_may_have_any_columns(tmp_path):
    for path in (tmp_path / "gaps.csv", tmp_path / "tables" / "mine.csv"):
        write_csv(path, pd.DataFrame({"seed": [1]}))
        assert read_csv(path).columns.tolist() == ["seed"]


@pytest.mark.parametrize("text", [b"", b'{"study": {', b"\xff"])
def test_a_plan_that_is_cut_short_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "plan.json").write_bytes(text)
    message = re.escape(f"{tmp_path / 'plan.json'}: is not whole; delete it to have it made again")
    with pytest.raises(RecordError, match=f"^{message}$"):
        read_plan(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": [{"workload": "w", "arm": "no", "seed": 0, "run_id": "r"}]}, "no arm 'no' of a workload 'w'"),
        ({"arms": []}, "arms are not those of the study"),
    ],
)
def test_a_plan_that_is_not_of_its_study_is_refused(few_runs, tmp_path, change, message):
    plan = json.loads((few_runs / "plan.json").read_text(encoding="utf-8"))
    (tmp_path / "plan.json").write_text(json.dumps({**plan, **change}), encoding="utf-8")
    with pytest.raises(RecordError, match=f"is no plan: .*{message}"):
        read_plan(tmp_path)
