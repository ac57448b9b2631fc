"""What a spec's settings become: weights, optimizer, schedule, and the modes in which a model is called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from halfscale.instruments.evaluate import evaluate
from halfscale.instruments.run import prepare
from halfscale.instruments.setup import TrainingError, make_model, make_optimizer, make_schedule
from halfscale.instruments.train import take_step, train
from halfscale.study.records import RecordError
from halfscale.study.spec import RunSpec
from halfscale.study.workload import Optimizer

MakeSpec = Callable[..., RunSpec]
PICTURES = {"model": "tiny_workloads:watching", "data": "tiny_workloads:pictures"}


def weights(spec: RunSpec) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in make_model(spec, "cpu").parameters()])


def test_the_ulp_twin_is_one_ulp_away_up_or_down(make_spec: MakeSpec) -> None:
    reference, twin, other = weights(make_spec()), weights(make_spec(perturb="ulp")), weights(make_spec(seed=1))
    up, down = torch.nextafter(reference, torch.tensor(torch.inf)), torch.nextafter(reference, -torch.tensor(torch.inf))
    assert ((twin == up) | (twin == down)).all()
    assert 0.3 < (twin == up).double().mean() < 0.7
    assert not torch.equal(reference, other)
    ups = [weights(make_spec(perturb="ulp", seed=seed)) > weights(make_spec(seed=seed)) for seed in (0, 1)]
    assert not torch.equal(ups[0], ups[1])


def test_adamw_gets_every_setting(make_spec: MakeSpec) -> None:
    settings = {"name": "adamw", "lr": 0.25, "betas": [0.5, 0.75], "eps": 1e-3, "weight_decay": 0.125}
    spec = make_spec({"optimizer": settings})
    group = make_optimizer(spec.optimizer, make_model(spec, "cpu")).param_groups[0]
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (0.25, (0.5, 0.75), 1e-3, 0.125)


def test_sgd_gets_every_setting(make_spec: MakeSpec) -> None:
    spec = make_spec({"optimizer": {"name": "sgd", "lr": 0.25, "momentum": 0.5, "weight_decay": 0.125}})
    group = make_optimizer(spec.optimizer, make_model(spec, "cpu")).param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.25, 0.5, 0.125)


def test_cosine_after_warmup(make_spec: MakeSpec) -> None:
    spec = make_spec(
        {"steps": 12, "schedule": {"name": "cosine", "warmup_steps": 4}, "optimizer": {"name": "sgd", "lr": 1}}
    )
    optimizer = make_optimizer(spec.optimizer, make_model(spec, "cpu"))
    schedule = make_schedule(spec, optimizer)
    rates = []
    for _ in range(12):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[8] == pytest.approx(0.5)  # half-way from 4 to 12
    assert rates == pytest.approx(
        [*rates[:4], *(0.5 + 0.5 * torch.cos(torch.arange(8, dtype=torch.float64) * torch.pi / 8)).tolist()]
    )


def test_a_model_is_called_in_the_mode_that_its_use_needs(make_spec: MakeSpec) -> None:
    spec = make_spec({**PICTURES, "memory_format": "channels_last"}, precision="fp16", backend="upcast")
    run = prepare(spec)
    run.model.train()
    take_step(run, 0)
    evaluate(spec, run.model, run.data, run.effective)
    assert run.model.seen == [(True, True, True), (False, True, True), (False, True, True)]


def test_a_training_run_trains_in_training_mode(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models = []
    monkeypatch.setattr("halfscale.instruments.train.prepare", lambda spec: models.append(prepare(spec)) or models[0])
    train(make_spec({**PICTURES, "steps": 3}), tmp_path)
    assert [training for training, _, _ in models[0].model.seen] == [True] * 3 + [False] * 2


def test_the_runs_own_threads_and_deterministic_kernels(make_spec: MakeSpec) -> None:
    spec = make_spec()
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(False)
    prepare(spec)
    assert torch.get_num_threads() == spec.threads == 1
    assert torch.are_deterministic_algorithms_enabled()


def test_evaluation_weighs_samples_alike(make_spec: MakeSpec) -> None:
    """Two batches of 8 and of 7, twice those of training: the mean over 15 samples, less what the oracle would lose."""
    spec = make_spec({**PICTURES, "batch_size": 4})
    run = prepare(spec)
    found = evaluate(spec, run.model, run.data, run.effective)
    batches = list(run.data.evaluation(8))
    logits = run.model(torch.cat([batch.inputs for batch in batches])).detach()
    targets = torch.cat([batch.targets for batch in batches])
    assert found.loss == pytest.approx(torch.nn.functional.cross_entropy(logits, targets).item(), rel=1e-6)
    assert found.excess == pytest.approx(found.loss - 0.125, rel=1e-6)
    assert found.accuracy == (logits.argmax(1) == targets).double().mean().item()


def test_evaluation_leaves_out_what_the_loss_leaves_out(make_spec: MakeSpec) -> None:
    """Batches of 8 and of 7, with the first five targets of one and all of another ignored."""
    spec = make_spec(PICTURES)
    run = prepare(spec)
    batches = list(run.data.evaluation(8))
    batches[0].targets[:5] = -100
    batches.append(batches[1]._replace(targets=torch.full_like(batches[1].targets, -100)))
    run.data.evaluation = lambda size: iter(batches)  # type: ignore[method-assign]
    found = evaluate(spec, run.model, run.data, run.effective)
    kept = [batch.targets != -100 for batch in batches]
    targets = torch.cat([batch.targets[where] for batch, where in zip(batches, kept, strict=True)])
    logits = torch.cat([run.model(batch.inputs)[where] for batch, where in zip(batches, kept, strict=True)]).detach()
    assert len(targets) == 10
    assert found.loss == pytest.approx(torch.nn.functional.cross_entropy(logits, targets).item(), rel=1e-6)
    assert found.accuracy == (logits.argmax(1) == targets).double().mean().item()


def test_no_held_out_samples_are_told_in_one_line(make_spec: MakeSpec) -> None:
    spec = make_spec(PICTURES)
    run = prepare(spec)
    run.data.evaluation = lambda size: iter(())  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match="no held-out samples"):
        evaluate(spec, run.model, run.data, run.effective)


def test_final_losses_and_their_excess(make_spec: MakeSpec, tmp_path: Path) -> None:
    summary = train(make_spec(PICTURES), tmp_path)
    assert summary.floor == 0.125
    assert summary.final_loss is not None
    assert summary.final_excess == pytest.approx(summary.final_loss - 0.125, rel=1e-6)


def test_the_final_scale_is_that_after_the_last_step(make_spec: MakeSpec, tmp_path: Path) -> None:
    inject = {"kind": "inf_gradient", "steps": [19]}
    scaling = {"kind": "dynamic", "init_scale": 1024}
    assert train(make_spec(precision="fp16", loss_scaling=scaling, inject=inject), tmp_path).final_scale == 512.0


def test_updates_are_counted_at_the_optimizer(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scaler that skips a clean step is caught: what was skipped is not derived from what it found."""
    monkeypatch.setattr(torch.amp.GradScaler, "_maybe_opt_step", lambda *_, **__: None)
    with pytest.raises(RecordError, match="skipped"):
        train(make_spec(precision="fp16"), tmp_path)


def test_each_micro_batch_is_another_batch(make_spec: MakeSpec) -> None:
    run = prepare(make_spec({"accumulate": 3}))
    asked: list[int] = []
    batch = run.data.batch
    run.data.batch = lambda index, size: asked.append(index) or batch(index, size)  # type: ignore[method-assign]
    for step in range(3):
        take_step(run, step)
    assert asked == list(range(9))


def test_masks_are_no_divergence(make_spec: MakeSpec, tmp_path: Path) -> None:
    summary = train(make_spec({"model": "tiny_workloads:with_mask"}), tmp_path)
    assert (summary.status, summary.bad_where) == ("completed", None)


def test_weights_that_are_not_fp32_are_refused(make_spec: MakeSpec, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"parameter 0\.weight is float64; allowed: float32"):
        train(make_spec({"model": "tiny_workloads:double"}), tmp_path)


def test_weights_without_values_are_refused(make_spec: MakeSpec, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"lazy': 0\.weight is lazy: it has no values yet"):
        train(make_spec({"model": "tiny_workloads:lazy"}), tmp_path)


@pytest.mark.parametrize("settings", [{"name": "sgd", "lr": 0.1, "momentum": 0.9}, {"name": "adamw", "lr": 0.1}])
def test_foreach_is_left_to_torch_unless_the_optimizer_is_fused(settings: dict[str, Any]) -> None:
    """fused=False would rule it out, and on a GPU every weight would be updated by kernels of its own."""
    model = torch.nn.Linear(2, 2)
    chosen = TypeAdapter(Optimizer).validate_python(settings)
    plain, fused = make_optimizer(chosen, model).defaults, make_optimizer(chosen, model, fused=True).defaults
    assert (plain["foreach"], plain["fused"]) == (None, None)
    assert (fused["foreach"], fused["fused"]) == (None, True)
