"""A gradient beside its FP32 twin: counts, norms, and what adds up."""

import math

import pytest
import torch

from halfscale.instruments import compare_gradients
from halfscale.instruments.compare_gradients import Compared, Reference

SMALLEST = 2.0**-14


def compare(gradient: torch.Tensor, reference: torch.Tensor, scale: float, smallest: float) -> Compared:
    return compare_gradients.compare(gradient, Reference(reference), scale, smallest)


VALUES = torch.tensor([1e-3, 1e-6, 3e-8, 1e-8, 0.0])


@pytest.mark.parametrize(("scale", "flushed", "subnormal"), [(1.0, 1, 2), (65536.0, 0, 0)])
def test_underflow_is_told_from_zeros_that_were_zero(scale: float, flushed: int, subnormal: int) -> None:
    """The known answer of FAULTS 13: at scale 1 one element underflows and two are subnormal, at 2^16 none."""
    compared = compare((VALUES * scale).half().float(), VALUES, scale, SMALLEST)
    assert (compared.flushed, compared.subnormal, compared.true_zero) == (flushed, subnormal, 1)
    assert compared.elements == 5


def test_error_and_cosine_are_of_the_unscaled_gradient() -> None:
    reference = torch.tensor([3.0, 4.0])
    compared = compare(4 * torch.tensor([3.0, 4.5]), reference, 4.0, SMALLEST)
    assert compared.norm == 5
    assert compared.error == pytest.approx(0.1)
    assert compared.cosine == pytest.approx((9 + 18) / (5 * math.hypot(3, 4.5)))
    assert compared.largest == 4


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_an_element_that_is_not_finite_is_an_overflow_and_has_no_error(bad: float) -> None:
    compared = compare(torch.tensor([1.0, bad]), torch.tensor([1.0, 2.0]), 1.0, SMALLEST)
    assert compared.overflow
    assert compared.error is None
    assert compared.cosine is None


def test_parts_add_up_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(100, generator=generator) * 1e-6
    gradient = (reference * 8).half().float()
    whole = compare(gradient, reference, 8.0, SMALLEST)
    parts = compare(gradient[:30], reference[:30], 8.0, SMALLEST) + compare(
        gradient[30:], reference[30:], 8.0, SMALLEST
    )
    assert (parts.elements, parts.flushed, parts.subnormal) == (whole.elements, whole.flushed, whole.subnormal)
    assert parts.error == pytest.approx(whole.error)
    assert parts.cosine == pytest.approx(whole.cosine)
    assert parts.largest == whole.largest


def test_squares_of_small_gradients_are_not_lost() -> None:
    reference = torch.full((4,), 1e-30)  # whose square is no FP32 number
    compared = compare(reference * 2, reference, 1.0, 0.0)
    assert compared.error == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1e-44, 1e-38, 1.0, 1e38])
@pytest.mark.parametrize("scale", [2.0**-126, 1.0, 2.0**126])
def test_nothing_is_lost_at_the_ends_of_what_fp32_and_a_scale_may_be(size: float, scale: float) -> None:
    reference = torch.full((4,), size)
    flushed = compare(torch.zeros(4), reference, scale, SMALLEST)
    assert (flushed.error, flushed.cosine, flushed.flushed) == (1.0, None, 4)
    own = compare(torch.full((4,), 1.5), reference, scale, SMALLEST)
    assert own.error == pytest.approx(abs(1.5 / scale / float(reference[0]) - 1))
    assert own.cosine == pytest.approx(1.0)
    assert own.norm == pytest.approx(2 * float(reference[0]))
