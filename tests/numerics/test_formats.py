import pytest
import torch

from halfscale.numerics.formats import BF16, FORMATS, FP8_E4M3, FP8_E5M2, FP16, FP32, TF32

TORCH = [
    (FP32, torch.float32),
    (FP16, torch.float16),
    (BF16, torch.bfloat16),
    (FP8_E4M3, torch.float8_e4m3fn),
    (FP8_E5M2, torch.float8_e5m2),
]


@pytest.mark.parametrize(("ours", "dtype"), TORCH)
def test_formats_are_torchs(ours, dtype):
    info = torch.finfo(dtype)
    assert ours.largest == info.max
    assert ours.epsilon == info.eps
    assert ours.smallest_normal == info.smallest_normal


@pytest.mark.parametrize(("ours", "dtype"), TORCH)
def test_half_the_smallest_subnormal_rounds_to_zero(ours, dtype):
    smallest = torch.tensor([1, 0.5, 0.75], dtype=torch.float64) * ours.smallest_subnormal
    # Through FP32 on the way, as gradients go; it holds all three exactly for every format but itself.
    rounded = smallest.to(torch.float64 if dtype is torch.float32 else torch.float32).to(dtype).double()
    assert rounded.tolist() == [ours.smallest_subnormal, 0.0, ours.smallest_subnormal]


@pytest.mark.parametrize(("ours", "dtype"), [pair for pair in TORCH if pair[0].has_infinity])
def test_overflow_starts_at_the_rounding_threshold(ours, dtype):
    threshold = torch.tensor(ours.overflow_threshold, dtype=torch.float64)
    below = torch.nextafter(threshold, torch.tensor(0.0, dtype=torch.float64))
    if dtype is not torch.float32:
        threshold = threshold.float()
        below = torch.nextafter(threshold, torch.tensor(0.0))
    assert threshold.to(dtype).item() == float("inf")
    assert below.to(dtype).item() == ours.largest


def test_fp16_by_the_numbers():
    assert FP16.largest == 65504
    assert FP16.overflow_threshold == 65520
    assert FP16.smallest_normal == 2**-14
    assert FP16.smallest_subnormal == 2**-24
    assert FP16.epsilon == 2**-10
    assert FP16.unit_roundoff == 2**-11


def test_bf16_by_the_numbers():
    assert BF16.epsilon == 2**-7
    assert BF16.unit_roundoff == 2**-8
    assert BF16.smallest_normal == 2**-126
    assert BF16.largest == pytest.approx(3.39e38, rel=1e-3)


def test_tf32_has_the_range_of_fp32_and_the_precision_of_fp16():
    assert TF32.smallest_normal == FP32.smallest_normal
    assert TF32.epsilon == FP16.epsilon


def test_e4m3_reaches_448_and_has_no_infinity():
    assert FP8_E4M3.largest == 448
    assert FP8_E4M3.overflow_threshold is None


def test_names_are_unique():
    assert len({each.name for each in FORMATS}) == len(FORMATS)


def test_rounding_to_fp16():
    values = torch.tensor([2.0**-25, 65519.0, 65520.0])
    assert values.half().tolist() == [0.0, 65504.0, float("inf")]
