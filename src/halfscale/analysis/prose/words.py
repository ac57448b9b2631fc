"""Words, numbers and lists as they stand in a sentence of LaTeX."""

import re
from collections.abc import Iterable

from halfscale.analysis import latex
from halfscale.analysis.latex import escape

MANY, FEW = 12, 6
"""A list of more than MANY items is not read: a sentence names the first FEW and counts the others."""

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def val(*parts: str) -> str:
    return rf"\val{{{'.'.join(parts)}}}"


def code(name: str) -> str:
    """Return a name of the config, breakable: the paper's \\code does so after - and _, this where neither comes for long."""
    pieces = re.split(rf"(?<=[^_-]{{{latex.BREAK_EVERY}}})(?=[^_-])", name)
    return rf"\code{{{latex.BREAK.join(map(escape, pieces))}}}"


def codes(names: Iterable[str]) -> str:
    return listed(map(code, names))


def listed(items: Iterable[str], separator: str = ", ") -> str:
    """Return `a`, `a and b` or `a, b and c`; with a semicolon, `a; b; and c`; of more than MANY, the first few."""
    items = list(items)
    if len(items) > MANY:
        items = [*items[:FEW], f"{len(items) - FEW} others"]
    if len(items) < 2:
        return "".join(items)
    last = " and " if separator == ", " else f"{separator}and "
    return separator.join(items[:-1]) + last + items[-1]


def number_word(count: int) -> str:
    return WORDS[count] if count < len(WORDS) else str(count)


def counted(count: int, noun: str) -> str:
    return f"{number_word(count)} {noun}" + ("" if count == 1 else "s")


def ranged(low: int, high: int, noun: str) -> str:
    """Return `three to six blocks`, or `three blocks` where both are the same."""
    return counted(high, noun) if low == high else f"{number_word(low)} to {counted(high, noun)}"


def of_all(count: int, total: int) -> str:
    """Return `two of the three runs`, or `all three runs`."""
    if count < total:
        return f"{number_word(count)} of the {number_word(total)} runs"
    return {1: "the one run", 2: "both runs"}.get(total, f"all {number_word(total)} runs")


def percent(share: float) -> str:
    return f"{latex.percent(share)}\\,\\%"


def inner(math_text: str) -> str:
    """Return a number in math mode without its dollars, for use within a formula."""
    return math_text.strip("$")
