"""The wrong ways: what each does to a step whose right answer is known, and what PyTorch says to those it refuses."""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from halfscale.instruments import pitfalls
from halfscale.instruments import train as loop
from halfscale.instruments.lost_updates import LostUpdates
from halfscale.instruments.practices import train_arm
from halfscale.instruments.run import Run, prepare
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.train import take_step, train
from halfscale.study.practice_records import Outcome
from halfscale.study.records import read_summary
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]
UNIT = {"model": "tiny_workloads:unit", "data": "tiny_workloads:ones", "batch_size": 1}
"""One weight at zero, whose gradient is -1."""


def outcome(spec: RunSpec) -> Outcome:
    return train_arm(prepare(spec), "tested")[0]


def steps_of(run: Run, steps: int) -> None:
    for step in range(steps):
        take_step(run, step)


@pytest.mark.parametrize(
    ("pitfall", "norm", "moved"), [(None, 12.0, 1.0), ("clip_before_unscale", 786_432.0, 2.0**-16)]
)
def test_clipping_too_early_clips_the_scaled_gradient(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, pitfall: str | None, norm: float, moved: float
) -> None:
    """Four weights of 3, the sum of their squares, learning rate 1, norm at most 1, scale 65536: |dw| is 1, or 1.5e-5."""
    seen: list[float] = []

    def noting(clip: Callable[..., Any]) -> Callable[..., Any]:
        def clipped(parameters: Any, limit: float, *norm: Any) -> Any:
            gradients = [parameter.grad for parameter in parameters]
            seen.append(float(torch.linalg.vector_norm(torch.cat([each.flatten() for each in gradients]))))
            return clip(parameters, limit, *norm)

        return clipped

    monkeypatch.setattr(loop, "clip_grads_with_norm_", noting(loop.clip_grads_with_norm_))
    monkeypatch.setattr(pitfalls, "clip_grad_norm_", noting(pitfalls.clip_grad_norm_))
    monkeypatch.setattr(loop, "forward", lambda model, *_: (model.weight.square().sum(), torch.zeros(8, 2)))
    squares = {"model": "tiny_workloads:squares", "optimizer": {"name": "sgd", "lr": 1.0}, "clip_norm": 1.0}
    scaling = {"kind": "static", "scale": 65536}
    run = prepare(make_spec(squares, precision="fp16", loss_scaling=scaling, pitfall=pitfall))
    take_step(run, 0)
    assert seen == [norm]
    change = torch.linalg.vector_norm(next(run.model.parameters()).detach() - 3.0)
    assert float(change) == pytest.approx(moved, rel=1e-2)  # FP32 around 3 has steps of 2.4e-7


def test_a_gradient_unscaled_twice_is_smaller_by_the_scale(make_spec: MakeSpec) -> None:
    """The weight moves by the learning rate of 0.1 in the right way."""
    scaling = {"kind": "static", "scale": 1024}
    for pitfall, moved in ((None, 0.1), ("unscaled_by_hand", 0.1 / 1024)):
        run = prepare(make_spec(UNIT, precision="fp16", loss_scaling=scaling, pitfall=pitfall))
        take_step(run, 0)
        assert float(next(run.model.parameters()).detach()) == pytest.approx(moved, rel=1e-6)


@pytest.mark.parametrize(
    ("pitfall", "step", "said"),
    [
        ("update_forgotten", 1, "unscale_() is being called after step()."),
        (
            "unscaled_twice",
            0,
            "unscale_() has already been called on this optimizer since the last update().",
        ),
        ("half_weights", 0, "Attempting to unscale FP16 gradients."),
    ],
)
def test_what_pytorch_refuses_is_told_in_its_own_words(make_spec: MakeSpec, pitfall: str, step: int, said: str) -> None:
    found = outcome(make_spec(precision="fp16", pitfall=pitfall))
    assert (found.status, found.first_bad_step, found.said) == ("refused", step, said)
    assert found.steps == step
    assert found.final_loss is None


def test_an_error_that_is_not_the_scalers_is_no_refusal(make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    run = prepare(make_spec(precision="fp16", pitfall="half_loss"))
    monkeypatch.setattr(run.data, "batch", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train_arm(run, "tested")


@pytest.mark.parametrize(("pitfall", "skipped"), [(None, 0), ("half_loss", 1)])
def test_a_loss_in_fp16_overflows_at_the_default_scale(make_spec: MakeSpec, pitfall: str | None, skipped: int) -> None:
    """2^16 itself is beyond FP16, and it is the gradient of the scaled loss; the weight's is half of it."""
    unit = {**UNIT, "batch_size": 64, "steps": 3, "loss_factor": 0.5}
    scaling = {"kind": "dynamic", "init_scale": 65536}
    found = outcome(make_spec(unit, precision="fp16", loss_scaling=scaling, pitfall=pitfall))
    assert found.skipped == skipped
    assert found.final_scale == 2.0 ** (16 - skipped)


@pytest.mark.parametrize(("pitfall", "rate"), [(None, 0.06), ("schedule_on_skipped", 0.10)])
def test_a_skipped_step_advances_the_schedule_in_the_wrong_way_alone(
    make_spec: MakeSpec, pitfall: str | None, rate: float
) -> None:
    """Warm-up over ten updates to 0.1, overflow in four of ten steps: six updates, and the sixth rate or the tenth."""
    workload = {"steps": 10, "schedule": {"warmup_steps": 10}}
    inject = {"kind": "inf_gradient", "steps": [0, 1, 2, 3]}
    run = prepare(make_spec(workload, precision="fp16", inject=inject, pitfall=pitfall))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found, trace = train_arm(run, "tested")
    assert said == []  # what PyTorch warns of is kept, and told with the run
    assert (found.said is None) is (pitfall is None)
    assert (found.updates, found.skipped) == (6, 4)
    assert trace["lr"].iloc[-1] == pytest.approx(rate)
    assert found.first_lr == pytest.approx(0.01 if pitfall is None else 0.05)


@pytest.mark.parametrize(("pitfall", "moved"), [(None, 0.1), ("half_weights", 0.0)])
def test_a_bf16_weight_of_one_never_moves_by_a_thousandth(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, pitfall: str | None, moved: float
) -> None:
    """Weight 1, update 1e-3, a hundred times: half the gap to the next number of BF16 is 2^-8 above and 2^-9 below."""
    monkeypatch.setattr(loop, "forward", lambda model, *_: (model.weight.sum().float(), torch.zeros(8, 2)))
    spec = make_spec(
        {"model": "tiny_workloads:ones_weight", "steps": 100, "optimizer": {"name": "sgd", "lr": 1e-3}},
        precision="bf16",
        pitfall=pitfall,
    )
    run = prepare(spec)
    watch = LostUpdates(run.optimizer)
    for step in range(spec.steps):
        if take_step(run, step):
            run.telemetry.fetch()
    weight = next(run.model.parameters())
    assert weight.dtype is (torch.float32 if pitfall is None else torch.bfloat16)
    assert float(weight.detach().float().mean()) == pytest.approx(1.0 - moved, abs=1e-5)
    assert watch.share == (0.0 if pitfall is None else 1.0)


def test_pure_fp16_and_adam_divide_zero_by_zero_where_there_is_no_gradient(make_spec: MakeSpec) -> None:
    """1e-8 is zero in FP16; a token that does not occur has an embedding without a gradient."""
    workload = {
        "model": "transformer",
        "model_args": {"vocabulary": 64, "context": 4, "width": 8, "depth": 1, "heads": 1},
        "data": "markov",
        "data_args": {"vocabulary": 64, "context": 4, "evaluation_batches": 1},
        "batch_size": 2,
        "optimizer": {"name": "adamw", "lr": 1e-3},
    }
    none = {"kind": "none"}
    pure = outcome(make_spec(workload, precision="fp16", loss_scaling=none, pitfall="half_weights"))
    assert (pure.status, pure.first_bad_step, pure.bad_where) == ("diverged", 1, "loss")
    assert outcome(make_spec(workload, precision="fp16", loss_scaling=none)).status == "completed"


CONVNET = {
    "model": "convnet",
    "model_args": {"channels": 4, "depth": 1},
    "data": "digits",
    "data_args": {"image_size": 8},
    "batch_size": 8,
    "steps": 12,
}
LARGE = {"kind": "large_input", "steps": [4]}


def test_going_on_after_a_forward_overflow_trains_well_and_evaluates_to_nothing(
    make_spec: MakeSpec, tmp_path: Path
) -> None:
    spec = make_spec(CONVNET, precision="fp16", inject=LARGE, pitfall="overflow_ignored")
    found = outcome(spec)
    assert (found.status, found.first_bad_step) == ("diverged", 4)
    assert found.bad_where == "buffer stem.norm.running_mean"
    assert (found.updates, found.skipped) == (4, 1)
    assert (found.later_steps, found.later_finite) == (7, 7)
    assert found.eval_loss is None
    train(spec, tmp_path)  # and so does the train instrument
    summary = read_summary(tmp_path / "summary.json", spec)
    assert (summary.first_bad_step, summary.bad_where) == (4, "buffer stem.norm.running_mean")


def test_the_same_overflow_is_seen_in_the_loss_and_avoided_by_an_island_and_by_other_formats(
    make_spec: MakeSpec,
) -> None:
    seen = outcome(make_spec(CONVNET, precision="fp16", inject=LARGE))
    assert (seen.status, seen.first_bad_step, seen.bad_where) == ("diverged", 4, "loss")
    for arm in ({"precision": "fp16", "fp32_modules": ["stem"]}, {"precision": "bf16"}, {"precision": "fp32"}):
        found = outcome(make_spec(CONVNET, inject=LARGE, **arm))
        assert found.status == "completed"
        assert found.eval_loss is not None
        assert math.isfinite(found.eval_loss)


def test_tokens_have_no_large_input(make_spec: MakeSpec) -> None:
    tokens = {
        "model": "transformer",
        "model_args": {"vocabulary": 8, "context": 4, "width": 8, "depth": 1, "heads": 1},
        "data": "markov",
        "data_args": {"vocabulary": 8, "context": 4},
    }
    with pytest.raises(TrainingError, match="these are tokens"):
        steps_of(prepare(make_spec(tokens, inject={"kind": "large_input", "steps": [0]})), 1)


def test_a_loss_factor_multiplies_the_gradient_and_not_the_loss_that_is_told(make_spec: MakeSpec) -> None:
    traces = []
    for factor in (1.0, 8.0):
        run = prepare(make_spec({"loss_factor": factor, "steps": 1}))
        traces.append(train_arm(run, "tested")[1])
    np.testing.assert_array_equal(traces[1]["loss"], traces[0]["loss"])
    np.testing.assert_array_equal(traces[1]["grad_norm"], 8 * traces[0]["grad_norm"])
