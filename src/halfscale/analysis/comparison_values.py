"""What the paper may cite of the comparisons between arms, by key."""

from collections.abc import Iterator

import pandas as pd

from halfscale.analysis.equivalence import number_of
from halfscale.analysis.latex import number, setting
from halfscale.study.runs import Roster


def equivalence_values(plan: Roster, table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the level of the tests, and what each comparison came to, from its row of equivalence.csv."""
    settings = plan.study.experiments.equivalence
    if settings is not None:
        yield "equivalence.alpha", number_of(settings.alpha)
        yield "equivalence.confidence", number_of(100 * (1 - settings.alpha))
        yield "equivalence.tost_confidence", number_of(100 * (1 - 2 * settings.alpha))
    for row in table.to_dict("records"):
        key = f"equivalence.{row['workload']}.{row['arm']}"
        yield f"{key}.verdict", str(row["verdict"])
        for name in ("n", "of"):
            yield f"{key}.{name}", number(int(row[name]))
        for name in (
            *("gap", "low", "high", "bca_low", "bca_high", "tost_low", "tost_high", "margin"),
            *("p_tost", "p_holm", "p_different", "p_different_holm", "smallest_margin", "smallest_margin_sd"),
        ):
            yield f"{key}.{name}", number(float(row[name]))


def sensitivity_values(table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield how much each family of arms depends on the learning rate, from its row of sensitivity.csv."""
    for row in table.to_dict("records"):
        key = f"sensitivity.{row['workload']}.{row['arm']}"
        for name in ("lowest_lr", "highest_lr", "best_lr"):
            yield f"{key}.{name}", setting(float(row[name]))
        for name in ("best_loss", "sensitivity", "low", "high", "excess", "excess_low", "excess_high"):
            yield f"{key}.{name}", number(float(row[name]))
