"""A precision that was asked for is in effect, or the run is refused by name."""

import pytest
import torch

from halfscale.numerics import precision
from halfscale.numerics.precision import (
    AUTOCAST,
    UnavailableError,
    arithmetic,
    autocast,
    autocast_dtype_in_effect,
    choose_backend,
    choose_device,
    choose_precision,
    get_tf32,
    set_reduced_precision_reduction,
    set_tf32,
)
from halfscale.numerics.upcast import Upcast


@pytest.mark.parametrize(
    ("asked", "expected"), [("fp32", None), ("tf32", None), ("fp16", torch.float16), ("bf16", torch.bfloat16)]
)
def test_the_dtype_in_effect(asked: str, expected: torch.dtype | None) -> None:
    assert autocast_dtype_in_effect(asked, "cpu") is expected


def test_autocast_that_disabled_itself_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "autocast", lambda *_: torch.autocast("cpu", enabled=False))
    with pytest.raises(UnavailableError, match=r"precision = 'fp16'.*torch\.float32"):
        autocast_dtype_in_effect("fp16", "cpu")


def test_activations_are_half_and_gradients_are_not() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 2))
    with autocast("fp16", "cpu"):
        output = torch.ones(2, 2) @ weight
    output.float().sum().backward()
    assert output.dtype is torch.float16
    assert weight.grad is not None
    assert weight.grad.dtype is torch.float32


def test_a_precision_the_device_lacks_is_refused_by_name_or_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_precision", lambda device, asked: asked == "fp32")
    with pytest.raises(UnavailableError, match="precision = 'bf16'"):
        choose_precision("bf16", "none", "cpu")
    assert choose_precision("bf16", "fp32", "cpu") == "fp32"
    assert choose_precision("fp32", "none", "cpu") == "fp32"


def test_tf32_is_not_to_be_had_on_a_cpu() -> None:
    with pytest.raises(UnavailableError, match="precision = 'tf32'"):
        choose_precision("tf32", "none", "cpu")


@pytest.mark.parametrize(
    ("cuda", "asked", "expected"), [(True, "auto", "cuda"), (False, "auto", "cpu"), (True, "cpu", "cpu")]
)
def test_device(monkeypatch: pytest.MonkeyPatch, cuda: bool, asked: str, expected: str) -> None:
    monkeypatch.setattr(precision, "has_cuda", lambda: cuda)
    assert choose_device(asked) == expected


def test_cuda_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_cuda", lambda: False)
    with pytest.raises(UnavailableError, match="device = 'cuda'"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("asked", "device", "units", "expected"),
    [
        ("auto", "cpu", False, "upcast"),
        ("auto", "cpu", True, "native"),
        ("native", "cpu", False, "native"),
        ("upcast", "cpu", True, "upcast"),
        ("upcast", "cuda", True, "native"),
    ],
)
@pytest.mark.parametrize("half", ["fp16", "bf16"])
def test_backend(
    monkeypatch: pytest.MonkeyPatch, half: str, asked: str, device: str, units: bool, expected: str
) -> None:
    monkeypatch.setattr(precision, "has_native", lambda device, precision: units and precision == half)
    assert choose_backend(asked, device, half) == expected


def test_fp32_is_native_always() -> None:
    assert choose_backend("upcast", "cpu", "fp32") == "native"
    assert choose_backend("auto", "cpu", "fp32") == "native"


def test_upcast_is_for_the_dtype_of_autocast() -> None:
    for half, dtype in AUTOCAST.items():
        context = arithmetic(half, "upcast")
        assert isinstance(context, Upcast)
        assert context.dtype is dtype
        assert not isinstance(arithmetic(half, "native"), Upcast)


def test_both_tf32_switches_are_set() -> None:
    set_tf32(True)
    assert get_tf32() == (True, True)
    set_tf32(False)
    assert get_tf32() == (False, False)


def test_products_are_summed_as_asked() -> None:
    matmul = torch.backends.cuda.matmul
    for allowed in (False, True):
        set_reduced_precision_reduction(allowed)
        assert matmul.allow_fp16_reduced_precision_reduction is allowed
        assert matmul.allow_bf16_reduced_precision_reduction is allowed


def test_evaluating_first_costs_no_parameter_its_gradient() -> None:
    """A weight cast under no_grad must not be reused in training, where it would cut the graph."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    with autocast("fp16", "cpu"):
        with torch.no_grad():
            model(torch.ones(1, 2))
        model(torch.ones(1, 2)).float().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
