"""An overflow is told by its pass, and by where in the model it was first seen on the way back."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from halfscale.instruments.run import prepare
from halfscale.instruments.train import train
from halfscale.study.records import Summary, read_trace
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]
STATIC = {"kind": "static", "scale": 64.0}


def run(spec: RunSpec, folder: Path) -> tuple[Summary, pd.DataFrame]:
    return train(spec, folder), read_trace(folder / "trace.parquet", spec)


def test_a_backward_pass_that_overflows_in_a_known_layer(make_spec: MakeSpec, tmp_path: Path) -> None:
    """The gradient is infinite where it enters `middle`, finite in `last` behind it, and mixed up in `first` ahead of it."""
    workload = {"model": "tiny_workloads:overflowing", "model_args": {"pass_name": "backward"}, "batch_size": 1}
    summary, trace = run(make_spec(workload, precision="fp16", loss_scaling=STATIC), tmp_path)
    assert summary.status == "completed"
    assert list(np.flatnonzero(trace["skipped"])) == [3]
    assert (trace["bad_parameter"][3], trace["bad_pass"][3]) == ("middle.bias", "backward")
    assert trace.drop(3)[["bad_parameter", "bad_pass"]].isna().all(axis=None)


def test_a_forward_pass_that_overflows(make_spec: MakeSpec, tmp_path: Path) -> None:
    """The loss is NaN, and so is every gradient: the first on the way back is the model's last."""
    workload = {"model": "tiny_workloads:overflowing", "model_args": {"pass_name": "forward"}}
    summary, trace = run(make_spec(workload, precision="fp16", loss_scaling=STATIC), tmp_path)
    assert (summary.status, summary.first_bad_step, summary.bad_where) == ("diverged", 3, "loss")
    assert bool(trace["skipped"][3])
    assert (trace["bad_parameter"][3], trace["bad_pass"][3]) == ("last.bias", "forward")


def test_a_scale_too_large_overflows_backward_from_the_model_s_end(make_spec: MakeSpec, tmp_path: Path) -> None:
    scaling = {"kind": "dynamic", "init_scale": 2.0**24}
    workload = {"model": "tiny_workloads:unit", "data": "tiny_workloads:ones"}
    _, trace = run(make_spec(workload, precision="fp16", loss_scaling=scaling), tmp_path)
    skipped = trace[trace["skipped"]]
    assert len(skipped) > 3
    assert set(skipped["bad_pass"]) == {"backward"}
    assert set(skipped["bad_parameter"]) == {"weight"}


@pytest.mark.parametrize("arm", [{"precision": "fp16", "loss_scaling": STATIC}, {}], ids=["skipped", "not stopped"])
def test_an_injected_infinity_is_where_it_was_put(make_spec: MakeSpec, tmp_path: Path, arm: dict[str, Any]) -> None:
    spec = make_spec(**arm, inject={"kind": "inf_gradient", "steps": [3]})
    _, trace = run(spec, tmp_path)
    assert (trace["bad_parameter"][3], trace["bad_pass"][3]) == ("0.weight", "backward")


def test_a_skipped_step_that_poisons_batchnorm_ends_the_run_there(make_spec: MakeSpec, tmp_path: Path) -> None:
    """The scaler skips the update; the statistics of the forward pass stay, and every evaluation would be NaN. The loss
    is finite all the same, and the statistics show which pass it was."""
    spec = make_spec({"model": "tiny_workloads:guarded"}, precision="fp16", loss_scaling=STATIC)
    summary, trace = run(spec, tmp_path)
    assert (summary.status, summary.first_bad_step, summary.bad_where) == ("diverged", 3, "buffer norm.running_mean")
    assert bool(trace["skipped"][3])
    assert np.isfinite(trace["loss"]).all()
    assert trace["bad_pass"][3] == "forward"


def test_a_buffer_is_named_that_was_bad_at_the_step_and_not_when_it_was_fetched(
    make_spec: MakeSpec, tmp_path: Path
) -> None:
    summary, _ = run(make_spec({"model": "tiny_workloads:poisoned_twice", "steps": 10}), tmp_path)
    assert (summary.status, summary.first_bad_step, summary.bad_where) == ("diverged", 3, "buffer second")


def test_a_parameter_is_named_by_its_gradient_at_the_step(make_spec: MakeSpec, tmp_path: Path) -> None:
    """Nothing skips the update; by the fetch, every parameter is NaN."""
    workload = {"model": "tiny_workloads:overflowing", "model_args": {"pass_name": "backward"}, "batch_size": 1}
    summary, trace = run(make_spec(workload, precision="fp16", loss_scaling={"kind": "none"}), tmp_path)
    assert (summary.status, summary.first_bad_step) == ("diverged", 3)
    assert summary.bad_where == f"parameter {trace['bad_parameter'][3]}" == "parameter middle.bias"


def test_the_last_that_is_not_finite_is_the_origin_whether_infinite_or_nan(make_spec: MakeSpec) -> None:
    """At the origin, an infinity times the zero of a ReLU is NaN; ahead of it, behind a ReLU, an infinity stays one."""
    prepared = prepare(make_spec({"model": "tiny_workloads:overflowing", "model_args": {"pass_name": "backward"}}))
    norms = torch.tensor([torch.inf, 1.0, torch.inf, torch.nan, 1.0, 1.0])
    step = SimpleNamespace(norms=norms, parameters=list(prepared.model.parameters()))
    assert prepared.telemetry.bad_parameter(step) == "middle.bias"  # type: ignore[arg-type]
