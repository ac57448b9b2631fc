"""The upcast backend against torch's native 16-bit kernels, and the exact answer, on every kernel it catches."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, scaled_dot_product_attention

from halfscale.numerics.precision import AUTOCAST
from halfscale.numerics.upcast import MATRIX_KERNELS, Upcast

aten = torch.ops.aten


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).half()


CONVOLUTION = ([2, 2], [1, 1], [1, 1], False, [0, 0], 1)
ATTENTION = [draw(2, 4, 16, 8, seed=seed) for seed in range(3)]


def attention_backward(convert: Callable[[Tensor], Tensor]) -> tuple[object, ...]:
    query, key, value = ATTENTION
    output, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, True)
    gradient = draw(2, 4, 16, 8, seed=3)
    statistics = logsumexp.double() if convert(query).dtype is torch.float64 else logsumexp  # FP32 beside 16 bits
    return (*map(convert, (gradient, query, key, value, output)), statistics, 0.0, True)


CASES: dict[object, Callable[[Callable[[Tensor], Tensor]], tuple[object, ...]]] = {
    aten.convolution.default: lambda c: (c(draw(2, 8, 9, 9)), c(draw(4, 8, 3, 3, seed=1)), c(draw(4)), *CONVOLUTION),
    aten.convolution_backward.default: lambda c: (
        c(draw(2, 4, 5, 5)),
        c(draw(2, 8, 9, 9, seed=1)),
        c(draw(4, 8, 3, 3, seed=2)),
        [4],
        *CONVOLUTION,
        [True, True, True],
    ),
    aten.mm.default: lambda c: (c(draw(16, 32)), c(draw(32, 8, seed=1))),
    aten.addmm.default: lambda c: (c(draw(8)), c(draw(16, 32, seed=1)), c(draw(32, 8, seed=2))),
    aten.bmm.default: lambda c: (c(draw(3, 16, 32)), c(draw(3, 32, 8, seed=1))),
    aten.baddbmm.default: lambda c: (c(draw(3, 16, 8)), c(draw(3, 16, 32, seed=1)), c(draw(3, 32, 8, seed=2))),
    aten.addbmm.default: lambda c: (c(draw(16, 8)), c(draw(3, 16, 32, seed=1)), c(draw(3, 32, 8, seed=2))),
    aten.mv.default: lambda c: (c(draw(64, 32)), c(draw(32, seed=1))),
    aten.addmv.default: lambda c: (c(draw(64)), c(draw(64, 32, seed=1)), c(draw(32, seed=2))),
    aten.dot.default: lambda c: (c(draw(64)), c(draw(64, seed=1))),
    aten._scaled_dot_product_flash_attention_for_cpu.default: lambda c: (*map(c, ATTENTION), 0.0, True),
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward,
}


def results_in(dtype: torch.dtype, result: object) -> list[Tensor]:
    results = result if isinstance(result, tuple) else (result,)
    return [value for value in results if isinstance(value, torch.Tensor) and value.dtype is dtype]


def test_every_kernel_has_a_case() -> None:
    assert set(CASES) == MATRIX_KERNELS


@pytest.mark.parametrize("dtype", AUTOCAST.values(), ids=str)
@pytest.mark.parametrize("kernel", CASES, ids=str)
def test_agrees_with_the_native_kernel(kernel: Callable[..., object], dtype: torch.dtype) -> None:
    arguments = CASES[kernel](lambda tensor: tensor.to(dtype))
    native = results_in(dtype, kernel(*arguments))
    with Upcast(dtype):
        upcast = results_in(dtype, kernel(*arguments))
    exact = results_in(torch.float64, kernel(*CASES[kernel](lambda tensor: tensor.to(dtype).double())))
    assert len(native) == len(upcast) > 0
    for ours, theirs, true in zip(upcast, native, exact, strict=False):
        assert ours.shape == theirs.shape
        # One rounding of an FP32 sum: within half a unit in the last place, and a hair for the sum itself.
        spacing = (torch.nextafter(ours.abs(), torch.tensor(torch.inf).to(dtype)) - ours.abs()).double()
        ours_off, theirs_off = (ours.double() - true).abs(), (theirs.double() - true).abs()
        assert (ours_off <= 0.52 * spacing + 1e-5).all()
        # The native kernel rounds inside too, so it may be worse but not better.
        assert ours_off.mean() <= 1.01 * theirs_off.mean() + 1e-9
        tolerance = 4 * torch.finfo(dtype).eps
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", AUTOCAST.values(), ids=str)
@pytest.mark.parametrize("kernel", [aten.mm.default, aten.convolution.default], ids=str)
def test_agrees_with_the_native_kernel_to_the_bit_almost_everywhere(
    kernel: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    arguments = CASES[kernel](lambda tensor: tensor.to(dtype))
    native = kernel(*arguments)
    with Upcast(dtype):
        upcast = kernel(*arguments)
    assert (native == upcast).double().mean() > 0.99


def test_rounds_the_fp32_product_once() -> None:
    left, right = draw(16, 32), draw(32, 8, seed=1)
    with Upcast(torch.float16):
        product = left @ right
    assert torch.equal(product, (left.float() @ right.float()).half())


def test_catches_the_backward_pass() -> None:
    inputs, weight = draw(2, 8, 9, 9), draw(4, 8, 3, 3, seed=1).requires_grad_()
    with Upcast(torch.float16):
        conv2d(inputs, weight).sum().backward()
    wide = weight.detach().float().requires_grad_()
    conv2d(inputs.float(), wide).sum().backward()
    assert weight.grad is not None
    assert wide.grad is not None
    assert weight.grad.dtype is torch.float16
    assert torch.equal(weight.grad, wide.grad.half())


def test_attention_goes_through_the_caught_kernel() -> None:
    seen = []

    class Watch(Upcast):
        def __torch_dispatch__(self, kernel: object, *arguments: object) -> object:
            seen.append(kernel)
            return super().__torch_dispatch__(kernel, *arguments)

    query, key, value = (tensor.clone().requires_grad_() for tensor in ATTENTION)
    with Watch(torch.float16):
        scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()
    assert aten._scaled_dot_product_flash_attention_for_cpu.default in seen
    assert aten._scaled_dot_product_flash_attention_for_cpu_backward.default in seen


def test_attention_keeps_its_statistics_in_fp32() -> None:
    kernel = aten._scaled_dot_product_flash_attention_for_cpu
    with Upcast(torch.float16):
        _, statistics = kernel(*ATTENTION, 0.0, True)
    assert torch.equal(statistics, kernel(*[tensor.float() for tensor in ATTENTION], 0.0, True)[1])


def test_overflow_is_kept() -> None:
    with Upcast(torch.float16):
        products = torch.tensor([[65504.0], [32760.0]]).half() @ torch.tensor([[2.0]]).half()
    assert products.flatten().tolist() == [torch.inf, torch.inf]  # 2 x 32760 = 65520, the first to round to infinity
    with Upcast(torch.float16):
        assert (torch.tensor([[32752.0]]).half() @ torch.tensor([[2.0]]).half()).item() == 65504.0


def test_underflow_is_kept() -> None:
    tiny = torch.tensor([[2.0**-13]]).half()
    with Upcast(torch.float16):
        assert (tiny @ torch.tensor([[2.0**-11]]).half()).item() == 2.0**-24
        assert (tiny @ torch.tensor([[2.0**-12]]).half()).item() == 0.0  # 2^-25 is a tie, and rounds to even


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_leaves_other_precisions_alone(dtype: torch.dtype) -> None:
    left, right = draw(16, 32).to(dtype), draw(32, 8).to(dtype)
    expected = left @ right
    with Upcast(torch.float16):
        product = left @ right
    assert product.dtype is dtype
    assert torch.equal(product, expected)


def test_operands_of_mixed_precision_are_refused_as_ever() -> None:
    with Upcast(torch.float16), pytest.raises(RuntimeError, match="dtype"):
        draw(2, 2) @ torch.ones(2, 2)
