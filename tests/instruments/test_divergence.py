"""Divergence is a result with a step and a place; a crash is neither."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from halfscale.instruments.divergence import find_explosion
from halfscale.instruments.train import train
from halfscale.study.records import read_summary, read_trace
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]


def test_an_infinite_gradient_that_nothing_stops(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec(inject={"kind": "inf_gradient", "steps": [4]})
    train(spec, tmp_path)
    summary = read_summary(tmp_path / "summary.json", spec)
    assert summary.status == "diverged"
    assert (summary.first_bad_step, summary.bad_where) == (4, "parameter 0.weight")
    assert (summary.steps, summary.updates, summary.overflows, summary.skipped) == (5, 5, 1, 0)
    assert summary.final_loss is None
    assert summary.eval_loss is None
    assert len(read_trace(tmp_path / "trace.parquet", spec)) == 5


def test_a_loss_that_is_not_finite_is_kept_in_the_trace(make_spec: MakeSpec, tmp_path: Path) -> None:
    # A rate of 1e38 sends the weights beyond FP32 by finite updates; the next loss shows it.
    spec = make_spec({"optimizer": {"name": "sgd", "lr": 1e38}})
    train(spec, tmp_path)
    summary = read_summary(tmp_path / "summary.json", spec)
    trace = read_trace(tmp_path / "trace.parquet", spec)
    assert (summary.status, summary.bad_where) == ("diverged", "loss")
    assert summary.first_bad_step == len(trace) - 1
    assert not np.isfinite(trace["loss"].iloc[-1])
    assert np.isfinite(trace["loss"].iloc[:-1]).all()
    json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)


def test_a_poisoned_buffer_is_found_at_its_step(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec({"model": "tiny_workloads:poisoned"})
    summary = train(spec, tmp_path)
    assert (summary.status, summary.first_bad_step, summary.bad_where) == ("diverged", 3, "buffer statistics")


def test_the_last_update_is_looked_at_too(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec({"steps": 1, "optimizer": {"name": "sgd", "lr": 1e38, "momentum": 0.0, "weight_decay": 1e30}})
    summary = train(spec, tmp_path)
    assert (summary.status, summary.first_bad_step) == ("diverged", 0)
    assert summary.bad_where == "parameter 0.weight"


def test_a_loss_that_rises_for_good(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec({"model": "tiny_workloads:rising", "optimizer": {"name": "sgd", "lr": 1e-6}})
    summary = train(spec, tmp_path)
    assert (summary.status, summary.first_bad_step) == ("diverged", 10)
    assert summary.bad_where == "loss above its initial values"
    assert summary.steps == 20


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        ([3.0] * 5 + [1.0] * 15, None),
        ([3.0] * 20, None),
        ([3.0, 2.0] * 8 + [4.0] * 4, 16),
        ([3.0, 2.0] * 8 + [4.0] * 3 + [3.0], None),
        ([1.0] * 4 + [2.0] * 4, 4),
        ([1.0] * 3 + [2.0] * 4, None),
    ],
)
def test_explosion(losses: list[float], step: int | None) -> None:
    divergence = find_explosion(pd.DataFrame({"loss": losses}))
    assert (divergence.step if divergence else None) == step
