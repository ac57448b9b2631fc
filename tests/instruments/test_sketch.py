"""Distances between sketches are those between the weights, as closely as is claimed, whatever the weights' structure."""

import pytest
import torch
from torch import Tensor

from halfscale.instruments import sketch as sketch_module
from halfscale.instruments.sketch import CHUNK, Sketch
from halfscale.study.samples import SKETCH_ERROR, SKETCH_WIDTH


def differences() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows, columns = (torch.randn(size, generator=generator) for size in (700, 512))
    return {
        "noise": torch.randn(700, 512, generator=generator),
        "constant": torch.ones(700, 512),
        "rank one": rows[:, None] * columns,
        "a column": torch.zeros(700, 512).index_fill_(1, torch.tensor([3]), 1.0),
        "heavy tails": torch.randn(700, 512, generator=generator) ** 5,
        "channels last": torch.randn(64, 32, 13, 13, generator=generator).to(memory_format=torch.channels_last),
    }


@pytest.mark.parametrize("name", differences())
def test_the_distance_is_the_true_one(name: str) -> None:
    difference = differences()[name]
    weights = torch.randn(difference.shape, generator=torch.Generator().manual_seed(1))
    sketch = Sketch("cpu")
    small = torch.randn(300)
    distance = torch.linalg.vector_norm(sketch.of([small, weights]) - sketch.of([small, weights + difference]))
    true = torch.linalg.vector_norm((weights + difference).double() - weights.double())
    assert distance.item() == pytest.approx(true.item(), rel=4 * SKETCH_ERROR)


def test_its_relative_error_is_the_stated_one() -> None:
    """Over 200 differences the root of the mean square error is that stated, to a sixth: a chi of 200 is so to 5 %."""
    sketch, generator = Sketch("cpu"), torch.Generator().manual_seed(2)
    errors = []
    for _ in range(200):
        difference = torch.randn(20_000, generator=generator)
        errors.append(torch.linalg.vector_norm(sketch.of([difference])) / torch.linalg.vector_norm(difference) - 1)
    assert torch.stack(errors).square().mean().sqrt().item() == pytest.approx(SKETCH_ERROR, rel=1 / 6)
    assert pytest.approx(0.0221, abs=1e-4) == SKETCH_ERROR


def test_a_single_ulp_is_seen() -> None:
    """A million weights of 0.02, each moved by one ulp, 1.9e-9: a sum in FP32 would lose it."""
    weights = 0.02 * torch.randn(1000, 1000, generator=torch.Generator().manual_seed(3))
    moved = torch.nextafter(weights, torch.full_like(weights, torch.inf))
    true = torch.linalg.vector_norm(moved.double() - weights.double())
    sketch = Sketch("cpu")
    distance = torch.linalg.vector_norm(sketch.of([moved]) - sketch.of([weights]))
    assert distance.item() == pytest.approx(true.item(), rel=4 * SKETCH_ERROR)


def test_of_a_large_model_a_part_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distance of the part, scaled: 1920 rows of noise, a tenth of them looked at."""
    generator = torch.Generator().manual_seed(4)
    first, second = (torch.randn(60 * CHUNK, generator=generator) for _ in range(2))
    monkeypatch.setattr(sketch_module, "MOST_SKETCHED", 6 * CHUNK)
    sketch = Sketch("cpu")
    distance = torch.linalg.vector_norm(sketch.of([first]) - sketch.of([second]))
    assert distance.item() == pytest.approx(torch.dist(first, second).item(), rel=4 * SKETCH_ERROR)
    second.view(-1, SKETCH_WIDTH)[::10] = first.view(-1, SKETCH_WIDTH)[::10]
    assert torch.equal(sketch.of([first]), sketch.of([second]))  # what lies in between is not seen


RESNET = {
    "first": (64, 3, 7, 7),
    "norm": (64,),
    "middle": (256, 64, 3, 3),
    "last": (512, 512, 3, 3),
    "head": (10, 2048),
}


@pytest.mark.parametrize("changed", [["first"], ["norm"], ["middle"], ["last"], ["head"], ["first", "last"]])
def test_of_a_large_model_every_tensor_stands_for_itself(changed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors change by very different amounts: what is taken of one must not stand for another."""
    monkeypatch.setattr(sketch_module, "MOST_SKETCHED", 2**18)
    generator = torch.Generator().manual_seed(6)
    weights = {name: torch.randn(size, generator=generator) for name, size in RESNET.items()}
    moved = weights | {
        name: weights[name] + 0.1 ** changed.index(name) * torch.randn(RESNET[name], generator=generator)
        for name in changed
    }
    sketch = Sketch("cpu")
    distance = torch.linalg.vector_norm(sketch.of(weights.values()) - sketch.of(moved.values()))
    true = sum(torch.dist(weights[name], moved[name]).item() ** 2 for name in RESNET) ** 0.5
    assert distance.item() == pytest.approx(true, rel=4 * SKETCH_ERROR)


def test_it_is_linear_and_the_same_for_all_runs() -> None:
    first, second = torch.randn(CHUNK + 5), torch.randn(CHUNK + 5)
    sketch, other = Sketch("cpu"), Sketch("cpu")
    assert sketch.of([first]).shape == (SKETCH_WIDTH,)
    assert torch.equal(sketch.of([first]), other.of([first]))
    torch.testing.assert_close(
        sketch.of([first + second]), sketch.of([first]) + sketch.of([second]), rtol=1e-6, atol=1e-5
    )
    assert not torch.equal(sketch.of([first, second]), sketch.of([second, first]))


def test_what_is_not_finite_shows() -> None:
    assert Sketch("cpu").of([torch.tensor([1.0, torch.nan])]).isnan().any()
