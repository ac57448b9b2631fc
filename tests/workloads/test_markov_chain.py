import math

import numpy as np
import pytest
import torch

from halfscale.workloads.markov_chain import MarkovChain

CYCLE = np.roll(np.eye(5), 1, axis=1)


def random_chain(vocabulary, order, seed=0):
    logits = 2 * np.random.default_rng(seed).standard_normal((vocabulary,) * (order + 1))
    weights = np.exp(logits)
    return MarkovChain(weights / weights.sum(axis=-1, keepdims=True))


def test_entropy_of_the_known_source():
    # A source of 32 tokens, logits N(0, 2^2) drawn in FP64 by torch's generator with seed 0.
    logits = 2 * torch.randn(32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert MarkovChain(logits.softmax(-1).numpy()).entropy_rate == pytest.approx(2.2235, abs=5e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_uniform_transitions_have_the_entropy_of_a_fair_die(order):
    chain = MarkovChain(np.full((6,) * (order + 1), 1 / 6))
    assert chain.entropies == pytest.approx([math.log(6)] * (order + 1), abs=1e-14)


def test_a_cycle_has_no_entropy():
    chain = MarkovChain(CYCLE)
    assert chain.entropy_rate == 0
    assert chain.conditionals[0] == pytest.approx(np.full(5, 0.2))
    tokens = chain.sample(np.random.default_rng(0), count=20, length=8)
    assert (np.diff(tokens) % 5 == 1).all()
    assert (chain.surprise(tokens) == 0).all()


def test_two_states_have_a_closed_form():
    a, b = 0.3, 0.1  # chances to leave either state
    chain = MarkovChain(np.array([[1 - a, a], [b, 1 - b]]))
    assert chain.conditionals[0] == pytest.approx([b / (a + b), a / (a + b)])

    def h(p):
        return -p * math.log(p) - (1 - p) * math.log(1 - p)

    assert chain.entropy_rate == pytest.approx((b * h(a) + a * h(b)) / (a + b), abs=1e-14)


def test_a_second_order_chain_that_forgets_is_its_first_order_twin():
    first = random_chain(4, order=1)
    second = MarkovChain(np.broadcast_to(first.conditionals[1], (4, 4, 4)).copy())
    assert second.entropies[1:] == pytest.approx([first.entropy_rate] * 2)
    assert second.conditionals[1] == pytest.approx(first.conditionals[1])


def test_knowing_more_leaves_less_entropy():
    marginal, after_one, after_two = random_chain(6, order=2).entropies
    assert marginal > after_one > after_two


@pytest.mark.parametrize("order", [1, 2])
def test_every_position_has_the_stationary_distribution(order):
    chain = random_chain(4, order)
    count = 20_000
    tokens = chain.sample(np.random.default_rng(1), count, length=5)
    for t in range(5):
        frequencies = np.bincount(tokens[:, t], minlength=4) / count
        error = np.sqrt(chain.conditionals[0] * (1 - chain.conditionals[0]) / count)
        assert (np.abs(frequencies - chain.conditionals[0]) < 4.5 * error).all()


@pytest.mark.parametrize("order", [1, 2])
def test_the_oracles_loss_is_the_entropy_at_every_position(order):
    chain = random_chain(8, order)
    surprise = chain.surprise(chain.sample(np.random.default_rng(2), 20_000, length=5))
    error = surprise.std(axis=0) / math.sqrt(len(surprise))
    expected = [chain.entropies[min(t, order)] for t in range(1, 5)]
    assert (np.abs(surprise.mean(axis=0) - expected) < 4 * error).all()
    assert chain.mean_entropy(4) == pytest.approx(np.mean(expected))


def test_two_chains_in_one_are_refused():
    with pytest.raises(ValueError, match="no single stationary distribution"):
        MarkovChain(np.eye(2))
