"""The training loop: what it must count, in which order it must act, and what must not move it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from halfscale.instruments import train as train_module
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.train import prepare, take_step, train
from halfscale.numerics import precision
from halfscale.study.records import Summary, read_summary, read_trace
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]
DYNAMIC = {"kind": "dynamic", "init_scale": 65536, "growth_interval": 5}


def run(spec: RunSpec, folder: Path) -> tuple[Summary, pd.DataFrame]:
    """Train, and read back what was written."""
    train(spec, folder)
    return read_summary(folder / "summary.json", spec), read_trace(folder / "trace.parquet", spec)


def test_a_run_learns_and_leaves_whole_records(make_spec: MakeSpec, tmp_path: Path) -> None:
    summary, trace = run(make_spec({"steps": 40}), tmp_path)
    assert summary.status == "completed"
    assert (summary.steps, summary.updates, summary.skipped) == (40, 40, 0)
    assert summary.final_loss is not None
    assert summary.final_loss < 0.5 * summary.initial_loss
    assert summary.eval_accuracy is not None
    assert summary.eval_accuracy > 0.9
    assert summary.final_loss == pytest.approx(trace["loss"].tail(4).mean())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["samples.parquet", "summary.json", "trace.parquet"]


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_the_same_spec_gives_the_same_bits(make_spec: MakeSpec, tmp_path: Path, name: str) -> None:
    spec = make_spec(precision=name)
    first, _ = run(spec, tmp_path / "first")
    second, _ = run(spec, tmp_path / "second")
    assert first.trace_sha256 == second.trace_sha256


def test_arms_of_a_block_start_alike(make_spec: MakeSpec, tmp_path: Path) -> None:
    _, reference = run(make_spec(), tmp_path / "fp32")
    _, other = run(make_spec(seed=1), tmp_path / "other")
    _, half = run(make_spec(precision="fp16"), tmp_path / "fp16")
    assert half["loss"][0] == pytest.approx(reference["loss"][0], rel=1e-3)
    assert other["loss"][0] != pytest.approx(reference["loss"][0], rel=1e-3)


@pytest.mark.parametrize("scale", [1.0, 2.0**10, 2.0**20])
@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_power_of_two_scaling_is_exact(make_spec: MakeSpec, tmp_path: Path, name: str, scale: float) -> None:
    _, unscaled = run(make_spec(precision=name), tmp_path / "unscaled")
    scaling = {"kind": "static", "scale": scale, "always": True}
    _, scaled = run(make_spec(precision=name, loss_scaling=scaling), tmp_path / "scaled")
    assert scaled["scale"].eq(scale).all()
    for column in ("loss", "grad_norm", "updates"):
        np.testing.assert_array_equal(scaled[column], unscaled[column])


def test_fp16_is_the_same_at_every_scale_that_neither_underflows_nor_overflows(
    make_spec: MakeSpec, tmp_path: Path
) -> None:
    traces = []
    for power in (10, 12, 14, 16):
        spec = make_spec(precision="fp16", loss_scaling={"kind": "static", "scale": 2.0**power})
        traces.append(run(spec, tmp_path / str(power))[1])
    assert not traces[-1]["overflow"].any()
    for trace in traces[1:]:
        np.testing.assert_array_equal(trace["loss"], traces[0]["loss"])


def test_bf16_with_a_scaler_is_bf16(make_spec: MakeSpec, tmp_path: Path) -> None:
    scaled, with_scaler = run(make_spec(precision="bf16", loss_scaling={**DYNAMIC, "always": True}), tmp_path / "with")
    _, without = run(make_spec(precision="bf16"), tmp_path / "without")
    assert scaled.growths == 4
    np.testing.assert_array_equal(with_scaler["loss"], without["loss"])
    assert without["scale"].isna().all()


def test_upcast_and_native_take_the_same_scales(make_spec: MakeSpec, tmp_path: Path) -> None:
    scaling = {"kind": "dynamic", "init_scale": 2.0**24, "growth_interval": 4}
    traces = [
        run(make_spec(precision="fp16", backend=backend, loss_scaling=scaling), tmp_path / backend)[1]
        for backend in ("native", "upcast")
    ]
    assert traces[0]["skipped"].any()
    assert traces[0]["growth"].any()
    np.testing.assert_array_equal(traces[0]["scale"], traces[1]["scale"])
    np.testing.assert_allclose(traces[0]["loss"], traces[1]["loss"], rtol=2e-3)


def test_an_injected_overflow_is_skipped_and_backs_off(make_spec: MakeSpec, tmp_path: Path) -> None:
    inject = {"kind": "inf_gradient", "steps": [3, 9]}
    scaling = {"kind": "dynamic", "init_scale": 1024, "growth_interval": 4}
    summary, trace = run(make_spec(precision="fp16", loss_scaling=scaling, inject=inject), tmp_path)
    assert (summary.steps, summary.updates, summary.skipped, summary.overflows) == (20, 18, 2, 2)
    assert list(np.flatnonzero(trace["skipped"])) == [3, 9]
    before = [1024.0] * 4 + [512.0] * 4 + [1024.0] * 2 + [512.0] * 4 + [1024.0] * 4 + [2048.0] * 2
    assert list(trace["scale"]) == before
    assert summary.final_scale == 2048.0
    assert (summary.growths, summary.backoffs) == (3, 2)
    assert not np.isfinite(trace["grad_norm"][[3, 9]]).any()


def test_static_scaling_skips_and_keeps_its_scale(make_spec: MakeSpec, tmp_path: Path) -> None:
    inject = {"kind": "inf_gradient", "steps": [3]}
    summary, trace = run(
        make_spec(precision="fp16", loss_scaling={"kind": "static", "scale": 256.0}, inject=inject), tmp_path
    )
    assert (summary.skipped, summary.growths, summary.backoffs) == (1, 0, 0)
    assert trace["scale"].eq(256.0).all()


def test_warmup_counts_updates_and_not_skipped_steps(make_spec: MakeSpec, tmp_path: Path) -> None:
    workload = {"steps": 12, "schedule": {"warmup_steps": 10}, "optimizer": {"name": "sgd", "lr": 1.0}}
    inject = {"kind": "inf_gradient", "steps": [1, 2, 3, 4]}
    _, trace = run(make_spec(workload, precision="fp16", loss_scaling=DYNAMIC, inject=inject), tmp_path)
    assert trace["updates"][9] == 6
    assert trace["lr"][10] == pytest.approx(0.7)  # the seventh update's
    assert list(trace["lr"][:6].round(6)) == [0.1, 0.2, 0.2, 0.2, 0.2, 0.2]


def test_accumulation_is_one_step_at_one_scale(make_spec: MakeSpec, tmp_path: Path) -> None:
    """An infinity in the first of four micro-batches: one skip, one backoff, two updates in three steps."""
    inject = {"kind": "inf_gradient", "steps": [0]}
    scaling = {"kind": "dynamic", "init_scale": 65536}
    spec = make_spec({"accumulate": 4, "steps": 3}, precision="fp16", loss_scaling=scaling, inject=inject)
    summary, trace = run(spec, tmp_path)
    assert (summary.skipped, summary.updates) == (1, 2)
    assert list(trace["scale"]) == [65536.0, 32768.0, 32768.0]


def test_accumulated_micro_batches_are_one_large_batch(make_spec: MakeSpec) -> None:
    """The gradient of a step is the mean over its samples, however they are cut."""
    pieces = prepare(make_spec({"accumulate": 4, "batch_size": 2}))
    whole = prepare(make_spec({"accumulate": 1, "batch_size": 8}))
    batches = [pieces.data.batch(index, 2) for index in range(4)]
    joined = type(batches[0])(torch.cat([b.inputs for b in batches]), torch.cat([b.targets for b in batches]), None)
    whole.data.batch = lambda index, size: joined  # type: ignore[method-assign]
    pieces_loss, _ = train_module.accumulate_gradients(pieces, 0)
    whole_loss, _ = train_module.accumulate_gradients(whole, 0)
    torch.testing.assert_close(pieces_loss, whole_loss)
    for ours, theirs in zip(pieces.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("scale", [None, 1.0, 65536.0])
def test_clipping_comes_after_unscaling(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, scale: float | None
) -> None:
    """Four weights of 3, the sum of their squares as loss, rate 1, threshold 1: norm 12, and a move of 1 at any scale."""
    scaling: dict[str, Any] = {"kind": "none"} if scale is None else {"kind": "static", "scale": scale, "always": True}
    workload = {"clip_norm": 1.0, "optimizer": {"name": "sgd", "lr": 1.0}}
    run = prepare(make_spec(workload, loss_scaling=scaling))
    weights = nn.Parameter(torch.full((4,), 3.0))
    run.optimizer.param_groups[0]["params"] = [weights]
    monkeypatch.setattr(train_module, "forward", lambda *_: (weights.square().sum(), torch.zeros(8, 2)))
    take_step(run, 0)
    run.telemetry.fetch()
    assert run.telemetry.rows[0]["grad_norm"] == 12.0
    assert run.telemetry.rows[0]["grad_max"] == 6.0  # before clipping, like the norm
    assert torch.linalg.vector_norm(weights.detach() - 3.0).item() == pytest.approx(1.0, rel=1e-5)


def test_weights_and_optimizer_state_stay_fp32(make_spec: MakeSpec) -> None:
    run = prepare(make_spec({"optimizer": {"name": "adamw", "lr": 1e-3}}, precision="fp16"))
    for step in range(3):
        take_step(run, step)
    state = [value for entry in run.optimizer.state.values() for value in entry.values() if isinstance(value, Tensor)]
    assert len(state) == 12
    assert {tensor.dtype for tensor in [*run.model.parameters(), *state]} == {torch.float32}


def test_the_loss_is_fp32_so_that_the_scale_cannot_overflow_it(make_spec: MakeSpec) -> None:
    run = prepare(make_spec(precision="fp16"))
    loss, logits = train_module.forward(run.model, run.data.batch(0, 8), run.effective, "contiguous")
    assert (loss.dtype, logits.dtype) == (torch.float32, torch.float16)


def test_a_small_weight_update_is_kept_under_autocast(make_spec: MakeSpec, tmp_path: Path) -> None:
    """A weight of 1 that moves by 1e-3 a step: BF16 weights would stay at 1, FP32 weights under autocast move."""
    run = prepare(make_spec({"optimizer": {"name": "sgd", "lr": 1e-3}}, precision="bf16"))
    weights = nn.Parameter(torch.ones(1))
    run.optimizer.param_groups[0]["params"] = [weights]
    for _ in range(100):
        weights.grad = torch.ones(1)
        run.optimizer.step()
    assert weights.item() == pytest.approx(0.9, rel=1e-5)
    assert (torch.ones(1).bfloat16() - torch.full((1,), 1e-3).bfloat16()).item() == 1.0


def test_what_was_in_effect_is_recorded(make_spec: MakeSpec, tmp_path: Path) -> None:
    summary, trace = run(make_spec(precision="fp16", backend="upcast"), tmp_path)
    effective = summary.effective
    assert (effective.device, effective.precision, effective.backend) == ("cpu", "fp16", "upcast")
    assert effective.autocast_dtype == "float16"
    assert effective.scaler_enabled
    assert not effective.tf32_matmul
    assert not effective.tf32_convolution
    assert effective.fp16_reduced_precision_reduction  # as PyTorch has it; a CPU has none
    assert summary.environment.torch == torch.__version__.partition("+")[0]
    assert trace["scale"].notna().all()


def test_a_fallback_says_so(make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_precision", lambda device, asked: asked == "fp32")
    summary, trace = run(make_spec(precision="fp16", fallback="fp32"), tmp_path / "half")
    assert summary.effective.fell_back
    assert (summary.effective.precision, summary.effective.scaler_enabled) == ("fp32", False)
    assert trace["scale"].isna().all()
    _, reference = run(make_spec(), tmp_path / "fp32")
    np.testing.assert_array_equal(trace["loss"], reference["loss"])


def test_a_precision_that_is_not_to_be_had_writes_nothing(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "has_precision", lambda device, asked: asked == "fp32")
    with pytest.raises(precision.UnavailableError, match="precision = 'bf16'"):
        train(make_spec(precision="bf16"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("tiny_workloads:classifier", {"freeze": "all"}, "no parameter with requires_grad"),
        ("tiny_workloads:detached", {}, "no parameter received a gradient"),
    ],
)
def test_a_model_that_cannot_train_is_an_error_by_name(
    make_spec: MakeSpec, tmp_path: Path, model: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        train(make_spec({"model": model, "model_args": arguments}, precision="fp16"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_frozen_backbone_trains_its_head(make_spec: MakeSpec, tmp_path: Path) -> None:
    workload = {"model_args": {"freeze": "backbone"}, "steps": 40}
    summary, _ = run(make_spec(workload, precision="fp16"), tmp_path)
    assert summary.final_loss is not None
    assert summary.final_loss < summary.initial_loss


class CountWaits(TorchDispatchMode):
    """Counts reads of a tensor's value by the host, each of which waits for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def __torch_dispatch__(self, kernel: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.waits += kernel is torch.ops.aten._local_scalar_dense.default
        return kernel(*args, **(kwargs or {}))


@pytest.mark.parametrize(("scaling", "waits"), [({"kind": "none"}, 0), (DYNAMIC, 1)])
def test_a_step_waits_for_the_device_just_where_gradscaler_itself_does(
    make_spec: MakeSpec, scaling: dict[str, Any], waits: int
) -> None:
    """GradScaler reads found_inf on the host once a step, to skip it or not. The telemetry adds nothing to that."""
    run = prepare(make_spec({"clip_norm": 1.0}, precision="fp16", loss_scaling=scaling))
    take_step(run, 0)
    for step in (1, 20, 25):  # the last is sampled
        with CountWaits() as counter:
            take_step(run, step)
        assert counter.waits == waits
