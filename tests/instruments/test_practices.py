"""A case from its spec to its records: every run is in it, blocks are blocks, and nothing broken is read."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from halfscale.instruments.practices import practices
from halfscale.instruments.train import train
from halfscale.study.load import parse_study
from halfscale.study.practice_records import read_practices
from halfscale.study.practices import PracticesSpec
from halfscale.study.records import RecordError, read_summary
from halfscale.study.runs import plan_study

MakeCase = Callable[..., PracticesSpec]
ARMS = [
    {"name": "right", "precision": "fp16", "loss_scaling": {"kind": "dynamic", "init_scale": 2.0**24}},
    {"name": "full", "precision": "fp32"},
    {"name": "early", "precision": "fp16", "pitfall": "clip_before_unscale"},
    {"name": "forgotten", "precision": "fp16", "pitfall": "update_forgotten"},
    {"name": "twice", "precision": "fp16", "pitfall": "unscaled_twice"},
]


@pytest.fixture
def make_case() -> MakeCase:
    """A function from the settings of a tiny case to its spec."""

    def make(**settings: Any) -> PracticesSpec:
        workload = {
            "name": "tiny",
            "model": "tiny_workloads:classifier",
            "data": "tiny_workloads:clouds",
            "batch_size": 8,
            "steps": 20,
            "optimizer": {"name": "sgd", "lr": 0.1},
            "clip_norm": 0.5,
        }
        case = {"name": "tiny", "workload": workload, "arms": copy.deepcopy(ARMS), **settings}
        study = {
            "study": "tiny",
            "seeds": [3, 5],
            "workloads": [workload],
            "arms": [{"name": "fp32", "precision": "fp32"}],
            "experiments": {"practices": {"cases": [case]}},
        }
        return plan_study(parse_study(study, "test")).practices["tiny"]

    return make


def test_every_run_of_a_case_is_in_its_records(make_case: MakeCase, tmp_path: Path) -> None:
    spec, done = make_case(), []
    practices(spec, tmp_path, done.append)
    record, steps = read_practices(tmp_path, spec)
    assert done == list(range(1, 11))
    assert [(each.arm, each.seed) for each in record.outcomes] == [
        (arm["name"], seed) for arm in ARMS for seed in (3, 5)
    ]
    statuses = [each.status for each in record.outcomes]
    assert statuses == ["completed"] * 6 + ["refused"] * 4
    for each in record.outcomes:
        assert each.updates + each.skipped == each.steps
        own = steps[(steps["arm"] == each.arm) & (steps["seed"] == each.seed)]
        assert own["step"].tolist() == list(range(each.steps))
        assert own["skipped"].sum() == each.skipped
    assert {arm: each.precision for arm, each in record.effective.items()} == {
        "right": "fp16",
        "full": "fp32",
        "early": "fp16",
        "forgotten": "fp16",
        "twice": "fp16",
    }


def test_a_run_is_what_the_train_instrument_makes_of_its_spec(make_case: MakeCase, tmp_path: Path) -> None:
    """The right way, and a wrong one: the same loss to the bit, and the same counts."""
    spec = make_case()
    practices(spec, tmp_path / "case")
    record, _ = read_practices(tmp_path / "case", spec)
    for index in (1, 5):
        arm, run = spec.runs()[index]
        train(run, tmp_path / arm)
        summary, found = read_summary(tmp_path / arm / "summary.json", run), record.outcomes[index]
        for name in ("status", "steps", "updates", "skipped", "growths", "backoffs", "initial_loss", "final_loss"):
            assert getattr(found, name) == getattr(summary, name), name
        assert found.final_scale == summary.final_scale
        assert found.eval_loss == summary.eval_loss


def test_arms_of_a_block_start_alike(make_case: MakeCase, tmp_path: Path) -> None:
    spec = make_case()
    practices(spec, tmp_path)
    record, _ = read_practices(tmp_path, spec)
    first = {(each.arm, each.seed): each.initial_loss for each in record.outcomes}
    assert first["early", 3] == first["right", 3] == pytest.approx(first["full", 3], rel=1e-3)
    assert first["right", 5] != pytest.approx(first["right", 3], rel=1e-3)


def test_the_same_spec_gives_the_same_steps(make_case: MakeCase, tmp_path: Path) -> None:
    spec = make_case()
    for name in ("first", "second"):
        practices(spec, tmp_path / name)
    first, second = ((tmp_path / name / "steps.parquet").read_bytes() for name in ("first", "second"))
    assert first == second


def test_a_case_all_of_whose_runs_are_refused_at_once_has_no_steps(make_case: MakeCase, tmp_path: Path) -> None:
    spec = make_case()
    refused = spec.model_copy(update={"treatments": spec.treatments[-1:], "reference": "twice"})
    practices(refused, tmp_path)
    record, steps = read_practices(tmp_path, refused)
    assert [each.status for each in record.outcomes] == ["refused", "refused"]
    assert steps.empty


@pytest.mark.parametrize(("step", "status"), [(17, "completed"), (18, "diverged")])
def test_a_run_without_a_final_loss_has_not_completed(
    make_case: MakeCase, tmp_path: Path, step: int, status: str
) -> None:
    """The final loss is the mean of the last two of 20 steps: with one of them infinite, there is none."""
    arm = {"precision": "fp16", "inject": {"kind": "large_input", "steps": [step]}}
    spec = make_case(arms=[{"name": "fp32", "precision": "fp32"}, {"name": "on", "pitfall": "overflow_ignored", **arm}])
    practices(spec, tmp_path)
    found = read_practices(tmp_path, spec)[0].outcomes[-1]
    assert (found.status, found.final_loss is None) == (status, status == "diverged")
    assert (found.first_bad_step, found.bad_where) == ((step, "loss") if status == "diverged" else (None, None))
    assert found.eval_loss is None or status == "completed"


def test_records_that_do_not_belong_together_are_refused(make_case: MakeCase, tmp_path: Path) -> None:
    spec = make_case(arms=ARMS[:2])
    practices(spec, tmp_path)
    with pytest.raises(RecordError, match="belongs to another spec"):
        read_practices(tmp_path, make_case(arms=ARMS[1::-1]))
    path = tmp_path / "steps.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordError, match=r"steps\.parquet: is not what was written"):
        read_practices(tmp_path, spec)
    path.unlink()
    with pytest.raises(RecordError, match=r"steps\.parquet: cannot be read"):
        read_practices(tmp_path, spec)
