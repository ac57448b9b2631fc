"""Text and numbers as LaTeX, and booktabs tables that break across pages."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

MISSING = "--"
BREAK = r"\allowbreak{}"
BREAK_EVERY = 16
SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "\n": " ",
    }
)


def escape(text: str) -> str:
    """Return plain text as LaTeX that prints it."""
    return text.translate(SPECIAL).replace("--", "-{}-")


def breakable(name: str) -> str:
    """Return a name as LaTeX that may break across lines after its hyphens and underscores.

    What is longer than BREAK_EVERY characters without either may break after as many.
    """
    pieces = re.findall(rf"[^_-]{{1,{BREAK_EVERY}}}[_-]?|[_-]", name)
    return BREAK.join(map(escape, pieces))


def flowing(text: str) -> str:
    """Return plain text as LaTeX: what stands between backticks as code, powers of ten as such, and long names may break."""
    spans = [" ".join(map(flowing_word, span.split(" "))) for span in text.split("`")]
    return "".join(rf"\texttt{{\frenchspacing {span}}}" if place % 2 else span for place, span in enumerate(spans))


def flowing_word(word: str) -> str:
    power = re.fullmatch(r"(-?\d\.?\d*)e([+-]\d+)(\W*)", word)
    if power:
        return rf"${power[1]}\times10^{{{int(power[2])}}}${escape(power[3])}"
    return (
        BREAK.join(map(breakable, re.split(r"(?<=\w[.:/])(?=\w)", word))) if len(word) > BREAK_EVERY else escape(word)
    )


def number(value: float | None) -> str:
    """Return a number in math mode: three significant digits, a whole number in full, an en dash for none or NaN.

    Below 0.001 and from 100000 the magnitude is what matters: a power of ten and two significant digits.
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    if isinstance(value, int) or value == 0:
        return f"${int(value)}$"
    rounded = float(f"{value:.2e}")
    if 1e-3 <= abs(rounded) < 1e5:
        decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
        return f"${rounded:.{decimals}f}$"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"${mantissa}\times10^{{{int(exponent)}}}$"


def setting(value: float) -> str:
    """Return a number that somebody chose, with the digits it was chosen with: 0.25, 2, a power of ten if small."""
    if math.isnan(value):
        return MISSING
    mantissa, _, exponent = f"{value:g}".partition("e")
    if not exponent:
        return f"${mantissa}$"
    power = f"10^{{{int(exponent)}}}"
    return f"${power}$" if mantissa == "1" else rf"${mantissa}\times{power}$"


def percent(share: float | None) -> str:
    """Return a share as a percentage without its sign."""
    return number(None if share is None else 100 * share)


def scale(value: float | None) -> str:
    """Return a loss scale: as a power of two where it is one."""
    if value is None or not math.isfinite(value) or value <= 0:
        return number(value)
    mantissa, exponent = math.frexp(value)
    return f"$2^{{{exponent - 1}}}$" if mantissa == 0.5 else number(value)


def interval(low: float, high: float) -> str:
    """Return a confidence interval, an en dash where there is none; below 0.001 with one power of ten for both ends."""
    if math.isnan(low) or math.isnan(high):
        return MISSING
    largest = max(abs(low), abs(high))
    if 0 < largest < 1e-3:
        exponent = int(f"{largest:.1e}".split("e")[1])
        ends = ", ".join(f"{end / 10.0**exponent:.1f}" for end in (low, high))
        return rf"$[{ends}]\times10^{{{exponent}}}$"
    return f"$[{number(low).strip('$')}, {number(high).strip('$')}]$"


class Column(NamedTuple):
    """A column of a table."""

    heading: str
    under: str
    """The second line of the heading, mostly a unit; may be empty."""
    align: str


def longtable(
    columns: Sequence[Column],
    groups: Sequence[tuple[str, Sequence[Sequence[str]]]],
    *,
    caption: str,
    label: str,
) -> str:
    """Return a table whose head is repeated on every page; needs the packages array, booktabs and longtable.

    Args:
        columns: headings as LaTeX.
        groups: a heading and rows of cells each, all as LaTeX, so that text is escaped once, by whom it comes from.
        caption: as LaTeX.
        label: for \\ref.
    """
    width = len(columns)
    head = [
        " & ".join(column.heading for column in columns) + r" \\",
        " & ".join(column.under for column in columns) + r" \\",
    ]
    body: list[str] = []
    for index, (heading, rows) in enumerate(groups):
        body += [r"\midrule"] if index else []
        body += [rf"\multicolumn{{{width}}}{{@{{}}l}}{{\textit{{{heading}}}}} \\*"]
        body += [" & ".join(row) + r" \\" for row in rows]
    lines = [
        "% Needs the packages array, booktabs and longtable.",
        r"\begingroup\small\setlength{\tabcolsep}{3pt}\setlength{\LTcapwidth}{\textwidth}",
        rf"\begin{{longtable}}{{@{{}}{''.join(column.align for column in columns)}@{{}}}}",
        rf"\caption{{{caption}}}\label{{{label}}}\\",
        r"\toprule",
        *head,
        r"\midrule",
        r"\endfirsthead",
        r"\toprule",
        *head,
        r"\midrule",
        r"\endhead",
        r"\midrule",
        rf"\multicolumn{{{width}}}{{r@{{}}}}{{continued on the next page}} \\",
        r"\endfoot",
        r"\bottomrule",
        r"\endlastfoot",
        *body,
        r"\end{longtable}",
        r"\endgroup",
    ]
    return "\n".join(lines) + "\n"
