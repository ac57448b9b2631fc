"""Which runs became unstable, when, and by what."""

import pandas as pd

from halfscale.analysis.instability import CAUSES
from halfscale.analysis.prose.measured import Measured
from halfscale.analysis.prose.words import code, codes, counted, listed, number_word

CAUSE_TEXTS = dict(
    zip(CAUSES, ("by diverging", "by a sporadic skip", "by a growth probe", "by a spike of the loss"), strict=True)
)


def survival(workload: str, measured: Measured) -> str:
    """Return how many runs of a workload became unstable, by what first, and in which arms."""
    runs = measured.runs
    unstable = runs[runs["instability"].notna()]
    if unstable.empty:
        return f"None of the {counted(len(runs), 'run')} became unstable."
    counts = unstable["instability"].value_counts()
    causes = [f"{number_word(int(counts[cause]))} {text}" for cause, text in CAUSE_TEXTS.items() if cause in counts]
    first = causes[0].split(" ", 1)[1] if len(causes) == 1 else ""
    how = f"{'all of them ' if len(unstable) > 1 else ''}{first}" if first else listed(causes)
    return " ".join(
        [f"Of {counted(len(runs), 'run')}, {number_word(len(unstable))} became unstable, {how}.", *by_arm(runs)]
    )


def by_arm(runs: pd.DataFrame) -> list[str]:
    """Return which arms lost all of their runs to instability, which some, and where the first one came."""
    share = runs["instability"].notna().groupby(runs["arm"], sort=False).mean()
    every, some = (list(share.index[chosen]) for chosen in (share == 1, (share > 0) & (share < 1)))
    sentences = []
    if every:
        sentences.append(
            f"It happened to every run of {codes(every)}" + (f", and to some of {codes(some)}." if some else ".")
        )
    elif some:
        sentences.append(f"It happened to some runs of {codes(some)}.")
    if (share == 0).any() and len(share) > len(every) + len(some):
        sentences.append(f"It happened to no run of {codes(share.index[share == 0])}.")
    first = runs.sort_values("first_instability", kind="stable").iloc[0]
    sentences.append(
        f"The earliest is at step ${int(first['first_instability'])}$, in a run of {code(str(first['arm']))}."
    )
    return sentences
