"""The table of claims for a terminal, and for a page of Markdown."""

import textwrap
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.claims._verdict import KINDS, digits
from halfscale.analysis.claims_tables import sentence
from halfscale.errors import UserError
from halfscale.study.whole import write_text

WIDTH = 100
START, END = "<!-- claims -->", "<!-- end of claims -->"
"""Marks in a page of Markdown between which the table stands."""


class NoPlaceError(UserError, ValueError):
    """A page that has no marks for the table."""


def describe_claims(table: pd.DataFrame) -> str:
    """Return the claims for a terminal, by verdict, each with what was found, its estimate and what would decide.

    Args:
        table: as read_claims_table gives it.
    """
    parts = []
    for kind in KINDS:
        own = table[table["verdict"] == kind]
        if len(own):
            parts.append(f"{kind.upper()} ({len(own)} of {len(table)})")
            parts += [
                describe_claim({str(name): value for name, value in row.items()}) for row in own.to_dict("records")
            ]
    return "\n\n".join(parts)


def describe_claim(row: dict[str, Any]) -> str:
    """Return one claim in a few lines."""
    lines = [f"{row['id']}: {sentence(row['statement'])}", row["finding"]]
    lines += [f"{estimate(row)} ({row['table']})"] if pd.notna(row["estimate"]) else []
    lines += [would(row)] if row["would_decide"] else []
    first, *others = lines
    wrapped = [textwrap.fill(first, WIDTH, initial_indent="  ", subsequent_indent="  ")]
    wrapped += [textwrap.fill(line, WIDTH, initial_indent="    ", subsequent_indent="    ") for line in others]
    return "\n".join(wrapped)


def would(row: Any) -> str:
    """Return what would decide or test a claim, as a sentence."""
    return f"{'Would test it' if row['verdict'] == 'not testable' else 'Would decide'}: {row['would_decide']}."


def estimate(row: dict[str, Any]) -> str:
    """Return an estimate with its unit and its interval; an en dash where there is none."""
    if pd.isna(row["estimate"]):
        return "–"
    text = f"{digits(row['estimate'])} {row['unit']}"
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return text
    return f"{text} [{digits(row['low'])}, {digits(row['high'])}]"


def markdown(table: pd.DataFrame) -> str:
    """Return the claims as a table of Markdown, by verdict."""
    table = table.sort_values("verdict", key=lambda kinds: kinds.map(KINDS.index), kind="stable")
    lines = ["| claim | verdict | estimate | what was found, and what would decide |", "|---|---|---|---|"]
    for row in table.to_dict("records"):
        told = row["finding"] + (f" {would(row)}" if row["would_decide"] else "")
        cells = [sentence(row["statement"]), row["verdict"], estimate({str(k): v for k, v in row.items()}), told]
        lines.append("| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines)


def put_between_marks(page: Path, table: pd.DataFrame) -> None:
    """Write the claims as Markdown between the marks of a page.

    Raises:
        NoPlaceError: it has no marks.
    """
    before, start, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise NoPlaceError(f"{page}: has no lines {START} and {END} to put the claims between")
    write_text(page, f"{before}{START}\n{markdown(table)}\n{END}{after}")
