"""Whether a remedy cures runs in FP16 that overflow again and again, from tables/practices_runs.csv."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from halfscale.analysis.claims._practices import share_estimate
from halfscale.analysis.claims._verdict import Kind, Tables, Verdict, percent, untestable
from halfscale.analysis.statistics import Mean, mean_with_interval
from halfscale.study.claims import Claims

Arm = Mapping[str, Any]

NOT_COMPARED = ("arm", "pitfall")
"""What may differ between an ill arm and its remedy, besides the remedy: an arm whose pitfall is to go on after an overflow
is what a scaler alone makes of it."""


def judge_remedy(tables: Tables, thresholds: Claims, setting: str, is_remedy: Callable[[Arm, Arm], bool]) -> Verdict:
    """Return the verdict on a remedy.

    Args:
        tables: of the study.
        thresholds: of the study.
        setting: the column of `settings` that the remedy changes, and nothing else.
        is_remedy: whether the second arm has the remedy over the first.
    """
    limit = thresholds.remedies.skipped
    found = []
    for ill, cure in pairs(tables, setting, is_remedy):
        before, after = illness(tables, ill), illness(tables, cure)
        if before.n and before.mean > limit:
            found.append((ill, cure, before, after))
    if not found:
        return untestable(
            "No case of the practices has both an FP16 arm that overflows again and again and this remedy.",
            f"a case of `experiments.practices` with a large `loss_factor`, and two FP16 arms that differ in `{setting}`",
        )
    kinds: list[Kind] = [kind_of(after, limit, thresholds.blocks) for _, _, _, after in found]
    ill, cure, before, after = max(found, key=lambda each: each[3].mean)
    text = " ".join(sentence(*each) for each in found)
    kind: Kind = kinds[0] if len(set(kinds)) == 1 else "inconclusive"
    return Verdict(
        kind,
        text,
        **share_estimate(after, "% of the steps skipped", cure),
        would_decide=undecided(kinds) if kind == "inconclusive" else "",
    )


def pairs(tables: Tables, setting: str, is_remedy: Callable[[Arm, Arm], bool]) -> list[tuple[Arm, Arm]]:
    """Return the scaled FP16 arms of the practices with, in the same case, one that has the remedy and is else the same."""
    if "practices_runs" not in tables:
        return []
    settings = tables["settings"]
    own = settings[(settings["case"] != "") & (settings["precision"] == "fp16") & (settings["loss_scaling"] != "none")]
    arms = [
        {str(name): value for name, value in row.items()}
        for row in own[own["pitfall"].isin(["", "overflow_ignored"])].to_dict("records")
    ]
    return [
        (ill, cure)
        for ill in arms
        for cure in arms
        if is_remedy(ill, cure)
        and all(same(ill[name], cure[name]) for name in ill if name not in (*NOT_COMPARED, setting))
    ]


def same(one: Any, other: Any) -> bool:
    """Return whether two settings are the same, empty ones among them."""
    return bool(one == other or (pd.isna(one) and pd.isna(other)))


def illness(tables: Tables, arm: Arm) -> Mean:
    """Return the share of its steps that an arm skips, the mean over blocks; a run that diverged or was refused skips all."""
    runs = tables["practices_runs"]
    own = runs[(runs["case"] == arm["case"]) & (runs["arm"] == arm["arm"])]
    share = (own["skipped"] / own["steps"]).where(own["status"] == "completed", 1.0)
    return mean_with_interval(share.astype(float))


def kind_of(after: Mean, limit: float, blocks: int) -> Kind:
    """Return what one case says of a remedy."""
    if after.n < blocks:
        return "inconclusive"
    low, high = (round(end, 12) for end in (after.low, after.high))  # a tenth in every block has a mean of a tenth
    if high <= limit:
        return "supported"
    return "refuted" if low > limit else "inconclusive"


def sentence(ill: Arm, cure: Arm, before: Mean, after: Mean) -> str:
    """Return what a remedy did in one case."""
    verb = "skips" if after.mean < before.mean else "still skips"
    return (
        f"In the case `{cure['case']}`, `{cure['arm']}` {verb} {percent(after.mean)} of its steps, where `{ill['arm']}` "
        f"{'diverges' if before.mean == 1 else f'skips {percent(before.mean)}'}."
    )


def undecided(kinds: list[Kind]) -> str:
    """Return what would decide where cases disagree, or where blocks do."""
    if {"supported", "refuted"} <= set(kinds):
        return "to know of a case why it overflows: the remedy cures one and not the other"
    return "more seeds"
