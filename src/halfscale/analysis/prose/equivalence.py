"""Which arms are shown to end at the reference's loss, and what as many seeds could have shown."""

import pandas as pd

from halfscale.analysis import latex
from halfscale.analysis.latex import breakable
from halfscale.analysis.prose.words import code, codes, counted, listed, number_word, val
from halfscale.analysis.tost import seeds_for, smallest_margin


def equivalence(table: pd.DataFrame, alpha: float) -> str:
    """Return one paragraph a workload.

    Args:
        table: of tables/equivalence.csv, of arms that are the same runs only one.
        alpha: level of the tests.
    """
    parts = [
        rf"\paragraph{{{breakable(str(workload))}.}} {paragraph(str(workload), own, alpha)}"
        for workload, own in table.groupby("workload", sort=False)
    ]
    return ("\n\n".join(parts) or "No arm is compared with another.") + "\n"


def paragraph(workload: str, table: pd.DataFrame, alpha: float) -> str:
    """Return what the comparisons of one workload came to."""
    arms = {str(verdict): own["arm"].tolist() for verdict, own in table.groupby("verdict", sort=False)}
    tested = table[table["verdict"] != "not comparable"]
    lost = table[table["verdict"] == "not comparable"]
    sentences = [
        *verdicts(workload, tested, arms),
        *(reach(workload, tested, alpha) if len(tested) else []),
        *not_comparable(lost),
    ]
    return " ".join(sentences)


def verdicts(workload: str, tested: pd.DataFrame, arms: dict[str, list[str]]) -> list[str]:
    """Return how many of the arms that can be compared are shown to be equivalent, and which are not."""
    if tested.empty:
        return ["No arm of this workload can be compared."]
    shown, count = arms.get("equivalent", []), len(tested)
    first = str(tested["arm"].iloc[0])
    alike = len(set(tested["margin"])) == 1
    margin = f"a margin of {key(workload, first, 'margin')} nats" if alike else "their margins"
    within = f"shown to end within {margin} of the reference's loss"
    if count == 1:
        sentences = [f"The one arm that can be compared, {code(first)}, is {'' if shown else 'not '}{within}."]
    elif len(shown) == count:
        sentences = [f"All {number_word(count)} arms that can be compared are {within}."]
    elif shown:
        verb = "is" if len(shown) == 1 else "are"
        sentences = [
            f"Of the {number_word(count)} arms that can be compared, {number_word(len(shown))} {verb} {within}: {codes(shown)}."
        ]
    else:
        sentences = [f"None of the {number_word(count)} arms that can be compared is {within}."]
    if "identical" in arms:
        verb = "ends" if len(arms["identical"]) == 1 else "end"
        sentences.append(f"{codes(arms['identical'])} {verb} at the reference's own loss in every block, bit for bit.")
    if "different" in arms:
        gaps = (f"{code(arm)}, by {interval(workload, arm)}" for arm in arms["different"])
        sentences.append(f"A difference from it is shown for {listed(gaps, '; ')}.")
    if "inconclusive" in arms and len(arms["inconclusive"]) < count:
        sentences.append(f"For {codes(arms['inconclusive'])} the blocks show neither.")
    elif "inconclusive" in arms:
        sentences.append("A difference is not shown either, once Holm's correction is made.")
    return sentences


def reach(workload: str, tested: pd.DataFrame, alpha: float) -> list[str]:
    """Return the margins that as many blocks could have shown, and how many blocks the margin of the rest takes."""
    varying = tested[tested["smallest_margin"] > 0]
    if varying.empty:
        return []
    counts = sorted(set(varying["n"]))
    blocks = counted(int(counts[0]), "block") if len(counts) == 1 else "these blocks"
    ordered = varying.sort_values("smallest_margin")
    least, most = ordered["arm"].iloc[0], ordered["arm"].iloc[-1]
    low, high = (f"{key(workload, arm, 'smallest_margin')} ({code(arm)})" for arm in (least, most))
    between = f"{low} nats" if least == most else f"between {low} and {high} nats"
    sentences = [f"With {blocks}, and gaps that vary as these do, the smallest margin in reach is {between}."]
    out = varying[varying["smallest_margin"] > varying["margin"]]
    if len(out):
        ratios = (
            out["margin"] / out["smallest_margin"] * out["smallest_margin_sd"]
        )  # in standard deviations of the gaps
        needed = [seeds_for(float(ratio), alpha) for ratio in ratios]
        low_n, high_n = min(needed), max(needed)
        seeds = f"{low_n}" if low_n == high_n else f"between {low_n} and {high_n}"
        whom = "every arm" if len(out) == len(varying) > 1 else codes(out["arm"])
        sentences.append(
            f"For {whom} that is more than the margin asked for: to show it with 80\\,\\% power would take {seeds} blocks."
        )
    return sentences


def not_comparable(lost: pd.DataFrame) -> list[str]:
    """Return which arms have no verdict, and why."""
    diverged = lost.loc[lost["n"] < lost["of"], "arm"]
    few = lost.loc[lost["n"] == lost["of"], "arm"]
    sentences = []
    if len(diverged):
        verb, whose = ("is", "it") if len(diverged) == 1 else ("are", "each")
        sentences.append(f"{codes(diverged)} {verb} not comparable: a run of {whose} or of the reference diverged.")
    if len(few):
        sentences.append(f"For a verdict on {codes(few)} there are too few blocks.")
    return sentences


def interval(workload: str, arm: str) -> str:
    gap, low, high = (key(workload, arm, name) for name in ("gap", "low", "high"))
    return rf"{gap} nats [{low}, {high}]"


def key(workload: str, arm: str, name: str) -> str:
    """Return the command of one value of a comparison."""
    return val("equivalence", workload, arm, name)


def seeds_reach(fewest: int, most: int, alpha: float) -> str:
    """Return the margins that numbers of blocks can show, in standard deviations of the gaps."""
    low, high = (latex.number(smallest_margin(n, alpha)) for n in (most, fewest))
    return low if low == high else f"{low} to {high}"
