"""FP32 islands and scales by layer: what runs in which format, what stays as it was to the bit, and what it helps."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from halfscale.instruments.modules import treat_modules
from halfscale.instruments.run import prepare
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.train import accumulate_gradients, take_step, train
from halfscale.numerics.precision import AUTOCAST
from halfscale.study.records import read_trace
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]
TRANSFORMER = {
    "model": "transformer",
    "model_args": {"vocabulary": 8, "context": 8, "width": 16, "depth": 1, "heads": 2},
    "data": "markov",
    "data_args": {"vocabulary": 8, "context": 8, "evaluation_batches": 1},
}


def formats(model: nn.Module) -> dict[str, tuple[torch.dtype, torch.dtype]]:
    """Have a model write down, by module, the formats of its first input and of its output."""
    seen: dict[str, tuple[torch.dtype, torch.dtype]] = {}
    for name, module in model.named_modules():

        def note(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor, name: str = name) -> None:
            seen[name] = (inputs[0].dtype, output.dtype)

        module.register_forward_hook(note)
    return seen


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_an_island_is_fp32_and_its_surroundings_are_not(make_spec: MakeSpec, precision: str) -> None:
    half = AUTOCAST[precision]
    run = prepare(make_spec(TRANSFORMER, precision=precision, fp32_modules=["blocks.0.feed_forward", "head"]))
    seen = formats(run.model)
    take_step(run, 0)
    # What the island is given is still what came in: it is cast inside.
    assert seen["blocks.0.feed_forward.expand"] == (torch.float32, torch.float32)
    assert seen["blocks.0.feed_forward"][1] is torch.float32
    assert seen["head"][1] is torch.float32
    assert seen["blocks.0.attention.query"][1] is half
    assert seen["blocks.0.attention.output"][1] is half


def test_an_island_holds_what_fp16_does_not() -> None:
    """An activation of 300^2 = 90,000 lies beyond 65,504."""

    def square_of(fp32: list[str]) -> Tensor:
        model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Identity())
        nn.init.constant_(model[0].weight, 300.0)
        treat_modules(model, fp32, {}, "cpu")
        with torch.autocast("cpu", dtype=torch.float16):
            return model(torch.tensor([[300.0]]))

    assert square_of([]).isinf().all()
    assert square_of(["0"]).item() == 90_000


@pytest.mark.parametrize("scale", [2.0**-8, 0.5, 2.0**8])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_power_of_two_changes_no_bit_where_nothing_underflows(
    make_spec: MakeSpec, tmp_path: Path, precision: str, scale: float
) -> None:
    plain = make_spec(TRANSFORMER, precision=precision)
    scales = {"blocks.0.feed_forward": scale, "blocks.0.attention.output": scale, "head": 1 / scale}
    scaled = make_spec(TRANSFORMER, precision=precision, layer_scales=scales)
    traces = []
    for spec in (plain, scaled):
        train(spec, tmp_path / spec.hash)
        traces.append(read_trace(tmp_path / spec.hash / "trace.parquet", spec))
    assert traces[0]["loss"].iloc[-1] < traces[0]["loss"].iloc[0]
    assert traces[0].equals(traces[1])


def test_what_is_changed_in_place_behind_a_scale_has_its_gradients(make_spec: MakeSpec) -> None:
    """ResNet-50 changes in place what its layers bn1 and bn3 give, and what its layer relu is given."""
    resnet50 = {
        "model": "resnet50",
        "model_args": {"num_classes": 10},
        "data": "digits",
        "data_args": {"image_size": 32},
        "batch_size": 4,
        "steps": 1,
    }

    def gradients(scales: dict[str, float]) -> list[Tensor | None]:
        run = prepare(make_spec(resnet50, layer_scales=scales))
        accumulate_gradients(run, 0)
        return [parameter.grad for parameter in run.model.parameters()]

    plain, scaled = gradients({}), gradients({"layer1.0.bn1": 4.0, "layer1.0.bn3": 0.25, "layer1.0.relu": 16.0})
    assert all(torch.equal(a, b) for a, b in zip(plain, scaled, strict=True))  # type: ignore[arg-type]


def test_nested_scales_are_both_undone() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(4, 3, requires_grad=True)
    plain = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Linear(3, 2))
    plain(inputs).square().sum().backward()
    expected = [inputs.grad, *(parameter.grad for parameter in plain.parameters())]
    inputs.grad = None
    plain.zero_grad()
    treat_modules(plain, [], {"0": 4.0, "0.0": 0.125}, "cpu")
    plain(inputs).square().sum().backward()
    found = [inputs.grad, *(parameter.grad for parameter in plain.parameters())]
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))  # type: ignore[arg-type]


def test_a_layers_own_scale_keeps_a_sum_that_overflows(make_spec: MakeSpec) -> None:
    """256 samples give the output a gradient of -1/512 each and the one weight one of -1: at a scale of 2^16 it overflows."""
    unit = {"model": "tiny_workloads:wrapped_unit", "data": "tiny_workloads:ones", "batch_size": 256, "steps": 1}
    scaling = {"kind": "static", "scale": 65536}

    def weight_after(**arm: object) -> float:
        run = prepare(make_spec(unit, precision="fp16", loss_scaling=scaling, **arm))
        take_step(run, 0)
        return float(next(run.model.parameters()).detach())

    assert weight_after() == 0.0  # skipped
    assert weight_after(layer_scales={"inner": 2.0**-4}) == pytest.approx(0.1)  # at a learning rate of 0.1


def test_a_layers_own_scale_keeps_a_product_that_underflows() -> None:
    """A gradient of 2^-12 through a weight of 2^-14 is 2^-26, which FP16 rounds to zero."""

    def gradient(scales: dict[str, float]) -> float:
        model = nn.Sequential(nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)))
        nn.init.constant_(model[0][0].weight, 1.0)
        nn.init.constant_(model[0][1].weight, 2.0**-14)
        treat_modules(model, [], scales, "cpu")
        with torch.autocast("cpu", dtype=torch.float16):
            (model(torch.ones(1, 1)) * 2.0**-12).sum().backward()
        return float(model[0][0].weight.grad)

    assert gradient({}) == 0.0
    assert gradient({"0": 2.0**8}) == 2.0**-26


@pytest.mark.parametrize("key", ["fp32_modules", "layer_scales"])
def test_an_unknown_module_is_told_by_name(make_spec: MakeSpec, key: str) -> None:
    value = ["blocks.0.atention"] if key == "fp32_modules" else {"blocks.0.atention": 2.0}
    with pytest.raises(
        TrainingError,
        match=rf"{key}: the model has no module 'blocks\.0\.atention' \(did you mean blocks\.0\.attention\?\); allowed: ",
    ):
        prepare(make_spec(TRANSFORMER, precision="fp16", **{key: value}))


def test_a_module_that_shares_a_parameter_has_no_scale_of_its_own() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    with pytest.raises(TrainingError, match=r"layer_scales: '0' shares a parameter with 1\.weight"):
        treat_modules(model, [], {"0": 2.0}, "cpu")


@pytest.mark.parametrize("name", ["0.0", "1.0"])
def test_a_module_that_two_others_hold_is_one_module(name: str) -> None:
    def treated(fp32: list[str], scales: dict[str, float]) -> nn.Module:
        torch.manual_seed(0)
        shared = nn.Linear(3, 3)
        model = nn.Sequential(nn.Sequential(shared, nn.Tanh()), nn.Sequential(shared, nn.Tanh()))
        treat_modules(model, fp32, scales, "cpu")
        return model

    def gradient(model: nn.Module) -> Tensor | None:
        model(torch.ones(4, 3)).square().sum().backward()
        return model[0][0].weight.grad

    assert torch.equal(gradient(treated([], {})), gradient(treated([], {name: 4.0})))  # type: ignore[arg-type]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert treated([name], {})(torch.ones(4, 3)).dtype is torch.float32
    with pytest.raises(TrainingError, match=r"layer_scales: '0' shares a parameter with 1\.0\.weight"):
        treated([], {"0": 4.0})  # whose second caller lies outside it


@pytest.mark.parametrize("key", ["fp32_modules", "layer_scales"])
def test_a_module_that_is_not_called_is_refused(make_spec: MakeSpec, tmp_path: Path, key: str) -> None:
    """An island of it would be none; with a scale, its gradient would be divided and never have been multiplied."""
    named = {"fp32_modules": ["head"], "layer_scales": {"head": 4.0}}
    spec = make_spec({"model": "tiny_workloads:bypassed"}, precision="fp16", **{key: named[key]})
    with pytest.raises(TrainingError, match=rf"{key}: the model does not call its module 'head' in training"):
        train(spec, tmp_path)
    assert list(tmp_path.iterdir()) == []
