"""The largest batch that fits."""

from collections.abc import Callable


def largest_batch(fits: Callable[[int], bool]) -> int:
    """Return the largest batch that fits, 0 if none does: doubled until one is too large, then halved in between.

    Args:
        fits: says whether a batch size fits; if one does, so must every smaller one.
    """
    if not fits(1):
        return 0
    most, too_many = 1, 2
    while fits(too_many):
        most, too_many = too_many, 2 * too_many
    while too_many - most > 1:
        middle = (most + too_many) // 2
        most, too_many = (middle, too_many) if fits(middle) else (most, middle)
    return most
