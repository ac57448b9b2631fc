import math

import pytest
import torch

from halfscale.workloads.data.markov import build


def test_shapes_and_shift():
    batch = build(0, vocabulary=7, context=12).batch(0, 5)
    assert batch.inputs.shape == batch.targets.shape == (5, 12)
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert 0 <= batch.inputs.min() <= batch.inputs.max() < 7


def test_the_default_source_is_the_known_one():
    assert build(0).floor == pytest.approx(2.2235, abs=5e-5)
    assert build(0).floor == pytest.approx(build(0).chain.entropy_rate)


def test_without_spread_every_token_is_equally_likely():
    data = build(0, vocabulary=16, spread=0.0)
    assert data.floor == pytest.approx(math.log(16), abs=1e-14)
    assert data.batch(0, 4).oracle_loss.item() == pytest.approx(math.log(16))


@pytest.mark.parametrize("order", [1, 2])
def test_the_oracle_reaches_the_floor_and_no_less(order):
    data = build(0, vocabulary=8, order=order)
    losses = torch.stack([data.batch(index, 64).oracle_loss for index in range(40)]).double()
    assert abs(losses.mean().item() - data.floor) < 4 * losses.std().item() / math.sqrt(40)


def test_the_oracle_of_a_second_order_source_has_not_seen_what_came_before_the_input():
    data = build(0, vocabulary=8, context=1, order=2)
    chain = data.chain
    batch = data.batch(0, 50)
    chances = chain.conditionals[1][batch.inputs[:, 0], batch.targets[:, 0]]
    assert batch.oracle_loss.item() == pytest.approx(-torch.tensor(chances).log().mean().item())
    assert data.floor == pytest.approx(chain.entropies[1])


def test_evaluation_has_as_many_batches_as_asked_for():
    assert [len(batch.inputs) for batch in build(0, evaluation_batches=3).evaluation(5)] == [5, 5, 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary": 1}, "vocabulary must be at least 2"),
        ({"context": 0}, "context"),
        ({"evaluation_batches": 0}, "evaluation_batches"),
        ({"order": 3}, "order is 3"),
        ({"vocabulary": 65, "order": 2}, "4225; it must be at most 4096"),
        ({"spread": -1.0}, "spread is -1.0"),
        ({"spread": 11.0}, "spread is 11.0"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build(0, **arguments)
