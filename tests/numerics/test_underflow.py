import torch

from halfscale.numerics.underflow import Underflow, count_underflow

GRADIENT = torch.tensor([1e-3, 1e-6, 3e-8, 1e-8, 0.0])


def test_underflow_subnormals_and_true_zeros_are_told_apart():
    assert count_underflow(GRADIENT, scale=1) == Underflow(elements=5, flushed=1, subnormal=2, true_zero=1)


def test_the_default_scale_saves_them_all_but_the_true_zero():
    assert count_underflow(GRADIENT, scale=65536) == Underflow(elements=5, flushed=0, subnormal=0, true_zero=1)


def test_bf16_has_the_range_to_need_no_scale():
    counts = count_underflow(GRADIENT, scale=1, dtype=torch.bfloat16)
    assert counts == Underflow(elements=5, flushed=0, subnormal=0, true_zero=1)


def test_sign_does_not_matter():
    assert count_underflow(-GRADIENT, scale=1) == count_underflow(GRADIENT, scale=1)
