"""Tokens from a Markov source whose entropy is known exactly: the yardstick that no real text gives."""

from collections.abc import Iterator

import numpy as np
import torch

from halfscale.workloads.batch import Batch
from halfscale.workloads.fingerprint import fingerprint
from halfscale.workloads.keys import Stream, generator
from halfscale.workloads.markov_chain import MarkovChain

LARGEST_STATE_SPACE = 4096
"""The stationary distribution is solved densely: 4096 states take 128 MiB and a few seconds."""


class Markov:
    """Next-token prediction: inputs are tokens 0 to T-1 of a sequence, targets tokens 1 to T."""

    def __init__(
        self, seed: int, chain: MarkovChain, context: int, evaluation_batches: int, arguments: dict[str, int | float]
    ) -> None:
        self.seed = seed
        self.chain = chain
        self.context = context
        self.evaluation_batches = evaluation_batches
        self.fingerprint = fingerprint("markov", arguments, chain.conditionals[-1])
        self.floor = chain.mean_entropy(context)

    def batch(self, index: int, size: int) -> Batch:
        return self.draw(generator(self.seed, Stream.TRAINING, index), size)

    def evaluation(self, size: int) -> Iterator[Batch]:
        """Yield the held-out batches: for one size the same for every seed."""
        for index in range(self.evaluation_batches):
            yield self.draw(generator(0, Stream.EVALUATION, index), size)

    def draw(self, random: np.random.Generator, size: int) -> Batch:
        tokens = self.chain.sample(random, size, self.context + 1)
        oracle_loss = torch.tensor(self.chain.surprise(tokens).mean(), dtype=torch.float32)
        sequences = torch.from_numpy(tokens)
        return Batch(sequences[:, :-1].contiguous(), sequences[:, 1:].contiguous(), oracle_loss)


def build(
    seed: int,
    /,
    *,
    vocabulary: int = 32,
    context: int = 64,
    order: int = 1,
    spread: float = 2.0,
    source_seed: int = 0,
    evaluation_batches: int = 8,
) -> Markov:
    """Return sequences of a Markov source: inputs and targets (N, context) int64.

    Sequences start in the stationary distribution. The oracle knows the source and what the model is shown, no more:
    at the first position of a second-order source it has seen one token of the two that the next depends on, and
    says P(x_1 | x_0) of the stationary distribution. The floor is the expectation of that oracle's loss: for order 1
    the entropy rate H = -sum_i pi_i sum_j P_ij ln P_ij, for order 2 a little more, by the first position's share.

    Args:
        seed: the block's; it draws the training sequences.
        vocabulary: number of different tokens, at least 2.
        context: tokens in an input, at least 1.
        order: tokens that the next one depends on, 1 or 2. A second-order source forces a model to attend.
        spread: standard deviation of the normal logits whose softmax is the transition probabilities;
            0 makes every token equally likely.
        source_seed: draws the source itself, the same for every block.
        evaluation_batches: held-out batches, at least 1.

    Raises:
        ValueError: an argument is out of range, or the source has no single stationary distribution.
    """
    if vocabulary < 2 or context < 1 or evaluation_batches < 1:
        raise ValueError("vocabulary must be at least 2, context and evaluation_batches at least 1")
    if order not in (1, 2):
        raise ValueError(f"order is {order}; it must be 1 or 2")
    if vocabulary**order > LARGEST_STATE_SPACE:
        raise ValueError(f"vocabulary ** order is {vocabulary**order}; it must be at most {LARGEST_STATE_SPACE}")
    if not 0 <= spread <= 10:
        raise ValueError(f"spread is {spread}; it must be from 0 to 10, where tokens already all but decide the next")
    arguments = {
        "vocabulary": vocabulary,
        "context": context,
        "order": order,
        "spread": spread,
        "source_seed": source_seed,
        "evaluation_batches": evaluation_batches,
    }
    random = torch.Generator().manual_seed(source_seed)
    logits = spread * torch.randn((vocabulary,) * (order + 1), generator=random, dtype=torch.float64)
    chain = MarkovChain(logits.softmax(dim=-1).numpy())
    return Markov(seed, chain, context, evaluation_batches, arguments)
