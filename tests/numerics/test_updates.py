"""Lost updates: the shares that are known, and the steps that are."""

import pytest
import torch
from torch import Tensor

from halfscale.numerics.updates import lost_updates

BF16, FP16 = torch.bfloat16, torch.float16


@pytest.mark.parametrize(("dtype", "share"), [(BF16, 0.775), (FP16, 0.215)])
def test_the_share_that_is_lost_of_normal_weights(dtype: torch.dtype, share: float) -> None:
    """w ~ N(0, 1), u ~ 1e-3 N(0, 1), a million of each: the standard error of the share is under 5e-4."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(1_000_000, generator=generator)
    update = 1e-3 * torch.randn(1_000_000, generator=generator)
    lost, of = lost_updates(weight, update, dtype)
    assert int(of) == 1_000_000
    assert int(lost) / int(of) == pytest.approx(share, abs=2e-3)


@pytest.mark.parametrize(
    ("weight", "update", "dtype", "lost"),
    [
        (1.0, 1e-3, BF16, 1),  # half the gap above 1 is 2^-8
        (1.0, 2.0**-8, BF16, 1),  # a tie goes to the even one, which is 1
        (1.0, 1.01 * 2.0**-8, BF16, 0),
        (1.0, -(2.0**-9), BF16, 1),  # below 1 the gap is half as wide
        (1.0, -1.01 * 2.0**-9, BF16, 0),
        (1.0, 1e-3, FP16, 0),
        (1.0, 2.0**-11, FP16, 1),
        (1.0, 1.01 * 2.0**-11, FP16, 0),
        (0.0, 2.0**-25, FP16, 1),  # rounds to zero
        (0.0, 2.0**-24, FP16, 0),
    ],
)
def test_where_an_update_begins_to_count(weight: float, update: float, dtype: torch.dtype, lost: int) -> None:
    assert counts(torch.tensor([weight]), torch.tensor([update]), dtype) == (lost, 1)


def test_a_weight_of_half_precision_never_moves_by_updates_that_are_lost() -> None:
    """Weight 1, update 1e-3, a hundred times: FP32 moves by a tenth, BF16 stays."""
    full, half = torch.ones(1), torch.ones(1, dtype=BF16)
    for _ in range(100):
        full += 1e-3
        half = (half.float() + 1e-3).to(BF16)
    assert full.item() == pytest.approx(1.1, abs=1e-5)
    assert half.item() == 1.0
    assert counts(torch.ones(100), torch.full((100,), 1e-3), BF16) == (100, 100)


def test_an_update_of_zero_is_not_lost() -> None:
    assert counts(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 1e-6]), BF16) == (1, 1)


def counts(weight: Tensor, update: Tensor, dtype: torch.dtype) -> tuple[int, int]:
    lost, of = lost_updates(weight, update, dtype)
    return int(lost), int(of)
