"""Random numbers that depend on what they are for, never on what was drawn before."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What a generator is for. Streams of one seed are independent; the values are part of every result."""

    TRAINING = 0
    EVALUATION = 1


def generator(seed: int, stream: Stream, index: int) -> np.random.Generator:
    """Return the generator of one batch (or epoch) of one stream, the same on every platform.

    Args:
        seed: not negative.
        index: batch or epoch, not negative.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, index)))
