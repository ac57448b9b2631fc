"""A Markov source of tokens, solved exactly: its stationary distribution, its entropy, and what an oracle knows."""

from functools import cached_property

import numpy as np


class MarkovChain:
    """A stationary source in which each token depends on the `order` tokens before it.

    Sampling, the oracle and the entropy all rest on one list: conditionals[k] is P(x_k | x_0 ... x_{k-1}), with k+1
    axes of V tokens, for k = 0 to order. From position `order` on it is always the last one, the chain's own
    transitions; before that, a reader of the sequence does not yet know the chain's whole state, and the
    conditionals of the stationary distribution are the best that anyone can do.
    """

    def __init__(self, transitions: np.ndarray) -> None:
        """Solve the chain.

        Args:
            transitions: P(next | tokens before), float64, order+1 axes of V; the last axis sums to 1.

        Raises:
            ValueError: there is no single stationary distribution.
        """
        self.order = transitions.ndim - 1
        joint = stationary_distribution(transitions)
        self.conditionals = [transitions]
        self.entropies = [entropy(joint, transitions)]
        for _ in range(self.order):
            context = joint.sum(axis=-1)
            before = context[..., None]
            conditional = np.divide(joint, before, out=np.zeros_like(joint), where=before > 0)
            self.conditionals.insert(0, conditional)
            self.entropies.insert(0, entropy(context, conditional))
            joint = context

    @property
    def entropy_rate(self) -> float:
        """H = -sum_i pi_i sum_j P_ij ln P_ij, in nats a token (Shannon 1948, section 7)."""
        return self.entropies[-1]

    def mean_entropy(self, length: int) -> float:
        """Return the mean entropy, in nats, of tokens 1 to `length`, each given all before it from token 0 on."""
        return sum(self.entropies[min(t, self.order)] for t in range(1, length + 1)) / length

    def sample(self, generator: np.random.Generator, count: int, length: int) -> np.ndarray:
        """Return `count` sequences from the stationary distribution, (count, length) int64."""
        uniform = generator.random((count, length))
        tokens = np.empty((count, length), dtype=np.int64)
        for t in range(length):
            k = min(t, self.order)
            cumulative = self.cumulative[k][tuple(tokens[:, t - k : t].T)]
            tokens[:, t] = (cumulative <= uniform[:, t, None]).sum(axis=-1)
        return tokens

    def surprise(self, tokens: np.ndarray) -> np.ndarray:
        """Return -ln P(x_t | x_0 ... x_{t-1}) for t from 1 on: (N, T) tokens to (N, T-1) nats."""
        chances = np.empty((len(tokens), tokens.shape[1] - 1))
        for t in range(1, tokens.shape[1]):
            k = min(t, self.order)
            chances[:, t - 1] = self.conditionals[k][tuple(tokens[:, t - k : t + 1].T)]
        return -np.log(chances)

    @cached_property
    def cumulative(self) -> list[np.ndarray]:
        """The conditionals summed along their last axis; the last sum is exactly 1, above any uniform draw."""
        sums = [np.cumsum(conditional, axis=-1) for conditional in self.conditionals]
        return [np.divide(s, s[..., -1:], out=np.ones_like(s), where=s[..., -1:] > 0) for s in sums]


def stationary_distribution(transitions: np.ndarray) -> np.ndarray:
    """Return the stationary distribution of the last `order` tokens, `order` axes of V.

    Raises:
        ValueError: there is not exactly one.
    """
    vocabulary = transitions.shape[-1]
    table = transitions.reshape(-1, vocabulary)
    states = len(table)
    # A state is its tokens written in base V: reading one more token drops the oldest digit.
    following = (np.arange(states)[:, None] * vocabulary + np.arange(vocabulary)) % states
    balance = np.zeros((states, states))
    balance[following, np.arange(states)[:, None]] = table
    balance -= np.eye(states)
    balance[-1] = 1  # the balance equations are dependent: one of them makes room for sum(pi) = 1
    try:
        solution = np.linalg.solve(balance, np.eye(states)[-1])
    except np.linalg.LinAlgError:
        raise ValueError("the Markov chain has no single stationary distribution") from None
    solution = np.clip(solution, 0, None)
    return (solution / solution.sum()).reshape(transitions.shape[:-1])


def entropy(context: np.ndarray, conditional: np.ndarray) -> float:
    """Return -sum_c p(c) sum_x P(x|c) ln P(x|c), in nats, with 0 ln 0 = 0."""
    logarithm = np.log(conditional, out=np.zeros_like(conditional), where=conditional > 0)
    return float(-(context[..., None] * conditional * logarithm).sum())
