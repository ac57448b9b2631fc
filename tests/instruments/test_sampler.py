"""What is sampled of a step is what happened in it, and nothing happens because of it."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

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
    expected = [flatten(tensor)[:: sampler.stride] for tensor in tensors]
    assert torch.equal(elements, torch.cat(expected))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_sample_meets_every_tap_of_a_kernel_and_every_channel(memory_format: torch.memory_format) -> None:
    """24.8 M elements would have a stride of 95 = 5 x 19, and 99 = 11 x 9 met one tap of a 3x3 kernel alone."""
    tap = torch.arange(9.0).view(1, 1, 3, 3).expand(512, 5 * 19 * 8, 3, 3).contiguous(memory_format=memory_format)
    sampler = Sampler([tap, torch.zeros(21_300_000)], 1, "cpu")
    assert sampler.stride == 97
    shares = torch.bincount(sampler.elements([tap]).long(), minlength=9) / len(sampler.elements([tap]))
    assert torch.allclose(shares, torch.full((9,), 1 / 9), atol=1e-3)


def test_the_sharpness_is_taken_at_every_place_of_a_sequence() -> None:
    """As long as the stride would be: the first place of each sequence alone would be looked at."""
    sampler = Sampler([torch.zeros(1)], 1, "cpu")
    logits = torch.zeros(1024, 7, 3)
    logits[:, 0, 0] = 5.0  # at the first place all are sure, and wrong
    targets = torch.ones(1024, 7, dtype=torch.int64)
    sampler.see_logits(logits, targets)
    (losses,) = sampler.losses
    assert losses[0].item() == pytest.approx(cross_entropy(logits.flatten(0, 1), targets.flatten()).item(), rel=0.1)


def test_a_parameter_without_a_gradient_in_some_steps_is_not_counted_there(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec({"model": "tiny_workloads:now_and_then", "sample_every": 1, "steps": 4})
    train(spec, tmp_path)
    samples = read_samples(tmp_path / "samples.parquet", spec)
    assert [int(np.sum(counts)) for counts in samples["exponents"]] == [10, 10 + 20, 10, 10 + 20]


def test_no_more_than_so_many_predictions_make_the_sharpness() -> None:
    sampler = Sampler([torch.zeros(1)], 1, "cpu")
    logits, targets = torch.zeros(64, 50, 3), torch.zeros(64, 50, dtype=torch.int64)
    stride = 7  # of 3200 predictions at the least every fourth can stay, and 5 divides 50
    logits.view(3200, 3)[[place for place in range(3200) if place % stride]] = torch.nan
    sampler.see_logits(logits, targets)
    assert sampler.losses[0].isfinite().all()
