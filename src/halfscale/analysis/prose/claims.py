"""What becomes of the claims: in the abstract, in the results, and in the conclusion."""

from typing import Any

import pandas as pd

from halfscale.analysis.claims._verdict import KINDS
from halfscale.analysis.claims_tables import sentence, short, shown_by, with_space
from halfscale.analysis.latex import flowing, setting
from halfscale.analysis.prose.words import code, listed, number_word, val
from halfscale.study.claims import Claims

Row = dict[str, Any]

TOLD_FIRST = (
    "bf16-no-loss",
    "fp16-needs-scaling",
    "defaults-fine",
    "half-memory",
    "double-speed",
    "clip-order",
    "batchnorm-safe",
    "master-weights",
    "lower-init-scale",
    "no-tensor-cores",
    "bf16-no-scaling",
    "layernorm-fp32",
)
"""The claims that the abstract names before others, the most asked about first."""

MOST = 2
"""Claims of a verdict that the abstract and the conclusion name."""

HEADINGS = {
    "supported": "Supported.",
    "refuted": "Refuted.",
    "inconclusive": "Open.",
    "not testable": "Not testable here.",
}


def claims(table: pd.DataFrame) -> str:
    """Return one paragraph a verdict, a sentence or two for each claim.

    Args:
        table: as read_claims_table gives it.
    """
    return "\n\n".join(
        [f"{counts(table)}.", *(paragraph(kind, rows(table, kind)) for kind in KINDS if rows(table, kind))]
    )


def counts(table: pd.DataFrame) -> str:
    """Return how many claims came to which verdict, as a sentence without its full stop."""
    verbs = {
        "supported": "supports {}",
        "refuted": "refutes {}",
        "inconclusive": "leaves {} open",
        "not testable": "cannot test {}",
    }
    parts = [verbs[kind].format(val("claims", kind.replace(" ", "_"))) for kind in KINDS if rows(table, kind)]
    return f"Of {val('claims', 'count')} claims that are commonly made of half precision, this study {listed(parts)}"


def rows(table: pd.DataFrame, kind: str) -> list[Row]:
    """Return the claims of a verdict."""
    return [
        {str(key): value for key, value in row.items()} for row in table[table["verdict"] == kind].to_dict("records")
    ]


def paragraph(kind: str, claims: list[Row]) -> str:
    """Return what is said of the claims of one verdict."""
    told = untested if kind == "not testable" else tried
    items = "\n".join(rf"  \item {told(row)}" for row in claims)
    return f"\\paragraph{{{HEADINGS[kind]}}}\n\\begin{{itemize}}\n{items}\n\\end{{itemize}}"


def tried(row: Row) -> str:
    """Return a claim, what was found, with its interval and where it is shown, and what would decide it."""
    figure, table = shown_by(row["id"])
    shown = rf"Figure~\ref{{{figure}}}, Table~\ref{{{table}}}"
    interval = spread(row)
    text = rf"\emph{{{flowing(sentence(row['statement']))}}} {flowing(row['finding'])}"
    text += f" ({interval}; {shown}.)" if interval else f" ({shown}.)"
    return f"{text} What would decide it: {flowing(row['would_decide'])}." if row["would_decide"] else text


def spread(row: Row) -> str:
    """Return an estimate and its interval by the keys of their numbers, and what the interval is."""
    key = f"claims.{row['id']}"
    if pd.isna(row["estimate"]):
        return ""
    text = f"{val(key, 'estimate')}{with_space(row['unit'])}"
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return text
    return f"{text}, {flowing(short(row['interval']))} [{val(key, 'low')}, {val(key, 'high')}]"


def untested(row: Row) -> str:
    """Return a claim, why it cannot be tested, and what would test it."""
    return (
        rf"\emph{{{flowing(sentence(row['statement']))}}} {flowing(row['finding'])} What would test it: "
        f"{flowing(row['would_decide'])}."
    )


def claim_rules(table: pd.DataFrame, thresholds: Claims) -> str:
    """Return the rule of each claim, and the thresholds that they name.

    Args:
        table: as read_claims_table gives it.
        thresholds: of the study.
    """
    items = "\n".join(
        rf"  \item[\normalfont\code{{{flowing(row['id'])}}}] {flowing(row['rule'])}" for row in table.to_dict("records")
    )
    values: dict[str, float] = {}
    for name, value in thresholds.model_dump().items():
        values |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
    named = ", ".join(f"{code(name)} {setting(value)}" for name, value in values.items())
    return f"The thresholds that the rules name are {named}.\n\\begin{{description}}\n{items}\n\\end{{description}}\n"


def foremost(table: pd.DataFrame, kind: str) -> list[str]:
    """Return the statements of the first claims of a verdict, in the order in which they are told."""
    order = {name: place for place, name in enumerate(TOLD_FIRST)}
    found = sorted(rows(table, kind), key=lambda row: order.get(row["id"], len(order)))
    return [f"that {flowing(row['statement'])}" for row in found[:MOST]]


def abstract_claims(table: pd.DataFrame) -> str:
    """Return the abstract's sentences on the claims."""
    text = f"{counts(table)}."
    supported, refuted = foremost(table, "supported"), foremost(table, "refuted")
    if supported and refuted:
        text += f" The evidence is for the claim {supported[0]}, and against the claim {refuted[0]}."
    elif supported or refuted:
        text += f" The evidence is {'for' if supported else 'against'} the claim {(supported or refuted)[0]}."
    return f"{text}\n"


def conclusion_claims(table: pd.DataFrame) -> str:
    """Return the conclusion's sentences on the claims."""
    sentences = [f"{counts(table)}."]
    supported, refuted = foremost(table, "supported"), foremost(table, "refuted")
    if supported:
        sentences.append(f"Among what holds is {listed(supported)}.")
    if refuted:
        sentences.append(f"Among what does not hold as it is commonly said is {listed(refuted)}.")
    left = len(rows(table, "inconclusive"))
    if left:
        it = "it" if left == 1 else "each of them"
        sentences.append(
            f"For the {number_word(left)} left open Table~\\ref{{tab:claims}} says what would decide {it}."
        )
    return " ".join(sentences) + "\n"
