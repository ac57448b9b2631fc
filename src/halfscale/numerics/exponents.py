"""The histogram of FP32 exponents: exact, and without a logarithm."""

import torch
from torch import Tensor

BINS = 256


def count_exponents(values: Tensor) -> Tensor:
    """Count values by the exponent field of their FP32 bits.

    By scatter_add, which unlike bincount does not have CUDA tell the host its largest value.

    Args:
        values: FP32, (N,).

    Returns:
        int64, (256,): 0 counts zeros and subnormal numbers, e the magnitudes from 2^(e - 127) to twice that, 255
        infinities and NaN.
    """
    fields = ((values.view(torch.int32) >> 23) & (BINS - 1)).long()
    return torch.zeros(BINS, dtype=torch.int64, device=values.device).scatter_add_(0, fields, torch.ones_like(fields))
