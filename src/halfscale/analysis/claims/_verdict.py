"""What becomes of a claim."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

Kind = Literal["supported", "refuted", "inconclusive", "not testable"]
KINDS: tuple[Kind, ...] = ("supported", "refuted", "inconclusive", "not testable")

Tables = Mapping[str, pd.DataFrame]
"""Tables by name, as read_csv reads them; those that a study has not are absent. Beside them `settings` has every arm of the
study (case is empty) and of its practices with what it is, as claims_tables.settings_table says."""


@dataclass(frozen=True)
class Verdict:
    """What the evidence of one study comes to."""

    kind: Kind
    finding: str
    """What was found, in a sentence or two of plain text."""
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    interval: str = ""
    """What low and high are, such as `95 % interval over blocks`."""
    unit: str = ""
    """Of estimate, low and high, such as `nats` or `% of the steps`."""
    n: int | None = None
    """How many blocks, runs or cases it rests on."""
    table: str = ""
    """The file that the estimate comes from."""
    rows: str = ""
    """The keys of its rows there."""
    would_decide: str = ""
    """What would decide an inconclusive one, or test one that is not testable."""


def untestable(finding: str, would_test: str) -> Verdict:
    """Return that a study has no evidence, why, and what would give some."""
    return Verdict("not testable", finding, would_decide=would_test)


def keys(**values: object) -> str:
    """Return the keys of a row, such as `workload=transformer, arm=bf16`."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def digits(value: float) -> str:
    """Return a number in three digits."""
    return f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share as a percentage in three digits."""
    return f"{100 * share:.3g} %"
