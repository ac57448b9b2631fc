"""Exponents of known numbers fall in known bins."""

import torch

from halfscale.numerics.exponents import count_exponents


def test_each_number_falls_in_the_bin_of_its_binade() -> None:
    values = torch.tensor([0.0, -0.0, 1e-40, 1.0, -1.5, 2.0, 2.0**-24, 1.99 * 2.0**-24, 65504.0, torch.inf, torch.nan])
    counts = count_exponents(values)
    found = {bin: int(counts[bin]) for bin in counts.nonzero().flatten().tolist()}
    assert found == {0: 3, 127: 2, 128: 1, 127 - 24: 2, 127 + 15: 1, 255: 2}


def test_the_bins_are_those_of_the_logarithm() -> None:
    values = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    expected = torch.bincount(values.abs().double().log2().floor().long() + 127, minlength=256)
    assert count_exponents(values).tolist() == expected.tolist()
