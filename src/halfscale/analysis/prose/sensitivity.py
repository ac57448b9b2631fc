"""How much each arm's loss depends on the learning rate."""

import pandas as pd

from halfscale.analysis.latex import breakable
from halfscale.analysis.prose.words import code, codes, counted, listed, val


def sensitivity(table: pd.DataFrame) -> str:
    """Return one paragraph a workload.

    Args:
        table: of tables/sensitivity.csv.
    """
    return (
        "\n\n".join(
            rf"\paragraph{{{breakable(str(workload))}.}} {paragraph(str(workload), own)}"
            for workload, own in table.groupby("workload", sort=False)
        )
        + "\n"
    )


def paragraph(workload: str, table: pd.DataFrame) -> str:
    """Return what the sweep of one workload came to: the reference's sensitivity, and whose is another."""
    base, others = table.iloc[0], table.iloc[1:]
    reference = str(base["arm"])
    best = f", and its best rate is {key(workload, reference, 'best_lr')}" if base["n"] else ""
    sentences = [
        f"Over {counted(int(base['rates']), 'rate')} from {key(workload, reference, 'lowest_lr')} to "
        f"{key(workload, reference, 'highest_lr')}, the sensitivity of {code(reference)} is "
        f"{key(workload, reference, 'sensitivity')} nats{best}."
    ]
    judged = others[others["excess_low"].notna()]
    apart = judged[(judged["excess_low"] > 0) | (judged["excess_high"] < 0)]
    if len(apart):
        gaps = (f"{code(arm)}, by {excess(workload, arm)}" for arm in apart["arm"])
        sentences.append(f"That of others differs in the same blocks: {listed(gaps, '; ')}.")
    alike = judged[~judged["arm"].isin(apart["arm"])]["arm"]
    if len(alike):
        sentences.append(f"The interval of the difference contains zero for {codes(alike)}.")
    diverged = table[table["diverged"] > 0]
    if len(diverged):
        counts = (f"{row.diverged} of {row.runs} of {code(str(row.arm))}" for row in diverged.itertuples())
        sentences.append(f"Of the runs of the sweep diverged {listed(counts)}.")
    else:
        sentences.append("No run of the sweep diverged.")
    return " ".join(sentences)


def excess(workload: str, arm: str) -> str:
    middle, low, high = (key(workload, arm, name) for name in ("excess", "excess_low", "excess_high"))
    return f"{middle} nats [{low}, {high}]"


def key(workload: str, arm: str, name: str) -> str:
    """Return the command of one value of a family."""
    return val("sensitivity", workload, arm, name)
