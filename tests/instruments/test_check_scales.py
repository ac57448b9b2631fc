"""Scales of modules that something passes by: found before the first step, named, and at no cost to the run."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from halfscale.instruments.check_scales import first_changed
from halfscale.instruments.run import prepare
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.train import train
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]


def leaky(kind: str) -> dict[str, object]:
    return {"model": "leaky_models:build", "model_args": {"kind": kind}}


@pytest.mark.parametrize("scale", [2.0**-8, 0.5, 2.0, 2.0**8])
@pytest.mark.parametrize(
    ("kind", "parameter"),
    # Boxed: what goes on from the module is divided, and nothing was multiplied.
    [("Tied", "inner.weight"), ("Boxed", "first.weight"), ("Attribute", "first.weight"), ("InPlace", "first.weight")],
)
def test_what_passes_a_scaled_module_by_is_refused(
    make_spec: MakeSpec, tmp_path: Path, kind: str, parameter: str, scale: float
) -> None:
    spec = make_spec(leaky(kind), precision="bf16", layer_scales={"inner": scale})
    with pytest.raises(
        TrainingError,
        match=f"layer_scales: the scale of 'inner' changes the gradient of {re.escape(parameter)} in FP32 by ",
    ):
        train(spec, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_the_module_at_fault_is_named(make_spec: MakeSpec) -> None:
    scales = {"first": 4.0, "inner": 0.25, "last": 4.0}
    with pytest.raises(TrainingError, match=r"the scale of 'inner' changes the gradient of inner\.weight"):
        prepare(make_spec(leaky("Tied"), layer_scales=scales))


@pytest.mark.parametrize("scale", [2.0**-24, 2.0**24])
def test_a_gradient_of_rounding_alone_is_not_held_against_a_module(make_spec: MakeSpec, scale: float) -> None:
    """A key's bias has no gradient, softmax being what it is; queries, keys and values are summed in another order."""
    workload = {
        "model": "transformer",
        "model_args": {"vocabulary": 16, "context": 16, "width": 32, "depth": 2, "heads": 2},
        "data": "markov",
        "data_args": {"vocabulary": 16, "context": 16, "evaluation_batches": 1},
    }
    prepare(make_spec(workload, precision="fp16", layer_scales={"blocks.1.attention": scale}))


def test_the_run_is_as_if_nobody_had_looked(make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make_spec(leaky("Shaky"), layer_scales={"inner": 4.0})

    def prepared() -> tuple[dict[str, Tensor], Tensor, list[bool]]:
        run = prepare(spec)
        gradients = [parameter.grad is not None for parameter in run.model.parameters()]
        return run.model.state_dict(), torch.get_rng_state(), gradients

    looked = prepared()
    monkeypatch.setattr("halfscale.instruments.run.check_layer_scales", lambda *_: None)
    plain = prepared()
    assert looked[0].keys() == plain[0].keys()
    assert all(torch.equal(looked[0][name], plain[0][name]) for name in plain[0])
    assert torch.equal(looked[1], plain[1])
    assert looked[2] == plain[2] == [False] * len(plain[2])


def test_a_model_that_cannot_be_copied_is_told(make_spec: MakeSpec) -> None:
    prepare(make_spec(leaky("Locked")))
    with pytest.raises(TrainingError, match=r"layer_scales: .* copy\.deepcopy raised TypeError: cannot pickle"):
        prepare(make_spec(leaky("Locked"), layer_scales={"inner": 4.0}))


def test_a_change_is_told_from_rounding_and_from_overflow() -> None:
    plain = {"a": torch.ones(4), "b": torch.full((4,), 1e-9), "c": torch.zeros(0)}
    assert first_changed(plain, plain) is None
    assert first_changed(plain, {**plain, "a": torch.full((4,), 1.0001)}) is None
    assert first_changed(plain, {**plain, "a": torch.full((4,), 1.001)}) == ("a", 2.0, pytest.approx(0.002, rel=1e-3))
    assert first_changed(plain, {**plain, "b": torch.full((4,), -1e-9)}) is None
    assert first_changed(plain, {**plain, "b": torch.full((4,), 1e-5)}) is not None
    assert first_changed(plain, {**plain, "a": torch.full((4,), torch.inf)}) is None
    assert first_changed({}, {}) is None
