"""What is sampled of a step is what happened in it, and nothing happens because of it."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from halfscale.instruments.norms import flatten
from halfscale.instruments.run import Run, prepare
from halfscale.instruments.sampler import Sampler
from halfscale.instruments.train import accumulate_gradients, parameters, take_step, train
from halfscale.numerics.exponents import count_exponents
from halfscale.numerics.updates import lost_updates
from halfscale.study.records import read_summary, read_trace, sha256
from halfscale.study.samples import MOST_ELEMENTS, read_samples
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]
STATIC = {"kind": "static", "scale": 4096.0}


def weights(run: Run) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in parameters(run)])


@pytest.mark.parametrize("arm", [{}, {"precision": "fp16", "loss_scaling": STATIC}], ids=["fp32", "fp16"])
def test_a_sample_is_what_happened(make_spec: MakeSpec, arm: dict[str, Any]) -> None:
    spec = make_spec({"clip_norm": 0.01, "optimizer": {"name": "sgd", "lr": 1e-2}}, **arm)
    run, twin = prepare(spec), prepare(spec)
    scale = 4096.0 if arm else 1.0
    accumulate_gradients(twin, 0)
    gradient = torch.cat([parameter.grad.flatten() for parameter in parameters(twin)]) / scale
    before = weights(run)
    take_step(run, 0)
    run.telemetry.fetch()
    update = weights(run) - before
    (row,) = run.telemetry.samples
    assert row["step"] == 0
    assert row["exponents"].tolist() == count_exponents(gradient).tolist()  # before clipping
    assert row["moved"] == int((update != 0).sum())
    assert row["lost_bf16"] == int(lost_updates(before, update, torch.bfloat16).lost)
    assert row["lost_fp16"] == int(lost_updates(before, update, torch.float16).lost)
    assert 0 < row["lost_fp16"] < row["lost_bf16"]
    assert row["update_ratio"] == pytest.approx((update.norm() / before.norm()).item(), rel=1e-6)
    assert torch.equal(row["sketch"], run.sampler.sketch.of(parameters(twin)))
    headroom = math.log2(65504 / (scale * gradient.abs().max().item()))
    assert row["headroom"] == (pytest.approx(headroom, abs=1e-6) if arm else None)


def test_unscaled_fp16_has_headroom_and_a_bf16_arm_none(make_spec: MakeSpec) -> None:
    for precision, known in (("fp16", True), ("bf16", False)):
        run = prepare(make_spec(precision=precision, loss_scaling={"kind": "none"}))
        take_step(run, 0)
        run.telemetry.fetch()
        assert (run.telemetry.samples[0]["headroom"] is not None) is known


def test_logits_of_zero_have_a_known_sharpness(make_spec: MakeSpec) -> None:
    run = prepare(make_spec({"model": "tiny_workloads:unit", "data": "tiny_workloads:ones", "accumulate": 2}))
    take_step(run, 0)
    run.telemetry.fetch()
    expected = 100 * (math.log1p(math.exp(2e-3)) - math.log(2)) / (1 + math.log(2))
    assert run.telemetry.samples[0]["sharpness"] == pytest.approx(expected, rel=1e-3)


def test_a_skipped_step_has_no_update(make_spec: MakeSpec, tmp_path: Path) -> None:
    inject = {"kind": "inf_gradient", "steps": [4]}
    spec = make_spec({"sample_every": 2}, precision="fp16", loss_scaling=STATIC, inject=inject)
    train(spec, tmp_path)
    samples = read_samples(tmp_path / "samples.parquet", spec).set_index("step")
    assert samples.index.tolist() == list(range(0, 20, 2))
    assert samples.loc[4, ["moved", "lost_bf16", "lost_fp16", "update_ratio", "headroom"]].isna().all()
    assert samples.drop(4).notna().all(axis=None)
    assert samples.loc[4, "exponents"][255] == 1  # the injected infinity, and no other
    assert sum(counts[255] for counts in samples["exponents"]) == 1


@pytest.mark.parametrize("arm", [{}, {"precision": "bf16"}, {"precision": "fp16", "loss_scaling": STATIC}])
def test_what_is_trained_does_not_depend_on_what_is_sampled(
    make_spec: MakeSpec, tmp_path: Path, arm: dict[str, Any]
) -> None:
    traces = []
    for every in (1, 3, 1000):
        spec = make_spec({"sample_every": every, "model_args": {"dropout": 0.2}, "accumulate": 2}, **arm)
        train(spec, tmp_path / str(every))
        summary = read_summary(tmp_path / str(every) / "summary.json", spec)
        trace = read_trace(tmp_path / str(every) / "trace.parquet", spec)
        assert summary.samples_sha256 == sha256(tmp_path / str(every) / "samples.parquet")
        traces.append((trace.drop(columns="grad_max"), summary.eval_loss))
    for trace, loss in traces[1:]:
        assert trace.equals(traces[0][0])
        assert loss == traces[0][1]


def test_a_diverged_run_keeps_the_samples_up_to_its_bad_step(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec({"sample_every": 2}, inject={"kind": "inf_gradient", "steps": [4]})
    train(spec, tmp_path)
    samples = read_samples(tmp_path / "samples.parquet", spec)
    assert samples["step"].tolist() == [0, 2, 4]
    assert np.isfinite(samples["sketch"].iloc[-1]).all()  # of the weights before the update that spoiled them


@pytest.mark.parametrize("sizes", [[3, 5], [500_000, 17], [1_000, 3_000_000, 1]])
def test_the_sample_is_evenly_strided_and_small(sizes: list[int]) -> None:
    tensors = [torch.arange(float(size)) for size in sizes]
    sampler = Sampler(tensors, 1, "cpu")
    elements = sampler.elements(tensors)
    assert len(elements) <= MOST_ELEMENTS + len(sizes)
    assert len(elements) > min(sum(sizes), MOST_ELEMENTS) / 3
    assert sampler.stride % 2 == 1
    expected = [flatten(tensor)[:: sampler.stride] for tensor in tensors]
    assert torch.equal(elements, torch.cat(expected))


def test_no_more_than_so_many_predictions_make_the_sharpness() -> None:
    sampler = Sampler([torch.zeros(1)], 1, "cpu")
    logits, targets = torch.zeros(64, 50, 3), torch.zeros(64, 50, dtype=torch.int64)
    logits[:, 1::2] = torch.nan  # 3200 predictions: every fourth is taken, and no odd one is among them
    sampler.see_logits(logits, targets)
    assert sampler.losses[0].isfinite().all()
