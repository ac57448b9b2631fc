"""What the timed steps say, one paragraph a workload."""

import math

import pandas as pd

from halfscale.analysis import latex
from halfscale.analysis.latex import breakable
from halfscale.analysis.prose.words import code, counted, listed, number_word, val

CLOSE = 0.02
"""Half-width, as a share, of an interval around 1 within which two times are called equal in the text."""


def throughput(variants: pd.DataFrame) -> str:
    """Return one paragraph a workload that was timed."""
    paragraphs = [
        rf"\paragraph{{{breakable(str(workload))}.}} {paragraph(str(workload), rows)}"
        for workload, rows in variants.groupby("workload", sort=False)
    ]
    return "\n\n".join(paragraphs) + "\n"


def paragraph(workload: str, rows: pd.DataFrame) -> str:
    """Return what was timed of a workload, how it compares with FP32, and what it waits for."""
    timed = rows[rows["status"] == "timed"]
    if timed.empty:
        return f"None of {counted(len(rows), 'variant')} could be timed on this device."
    sentences = [reference(workload, timed), *(compared(workload, row) for row in records(timed, "speedup"))]
    sentences += [scaler(workload, row) for row in records(timed, "scaler_cost")]
    sentences += not_timed(rows)
    bound = timed.loc[timed["input_bound"].eq(True), "label"]
    if len(bound):
        sentences.append(f"Input-bound, and so no measure of the device: {listed(map(code, bound))}.")
    sentences += [*transfers(workload, timed), *clocks(workload, timed)]
    sentences += disturbed(workload, timed)
    unsteady = int((~timed["steady"].astype(bool)).sum())
    if unsteady:
        verb = "was" if unsteady == 1 else "were"
        sentences.append(f"{number_word(unsteady).capitalize()} of the warm-ups {verb} not steady when timing began.")
    return " ".join(sentences)


def records(rows: pd.DataFrame, name: str) -> list[dict[str, object]]:
    """Return the rows in which a ratio is known."""
    return [{str(key): value for key, value in row.items()} for row in rows[rows[name].notna()].to_dict("records")]


def reference(workload: str, timed: pd.DataFrame) -> str:
    """Return the step time and the rate of the first variant, which is FP32 unless the study leaves it out."""
    name, label = str(timed["variant"].iloc[0]), str(timed["label"].iloc[0])
    sentence = (
        f"A step of {code(label)} takes {key(workload, name, 'step_ms')}\\,ms, that is "
        f"{key(workload, name, 'samples_per_second')} samples a second, at {key(workload, name, 'share_of_gemm')}\\,\\% of "
        "the rate of a square matrix product in the same precision."
    )
    if timed["least_ms"].isna().iloc[0]:
        return sentence
    return (
        f"{sentence} By data sheet it could not take less than {key(workload, name, 'least_ms')}\\,ms; it reaches "
        f"{key(workload, name, 'share_of_bound')}\\,\\% of that bound, and its MFU is {key(workload, name, 'mfu')}\\,\\%."
    )


def compared(workload: str, row: dict[str, object]) -> str:
    """Return how a variant's time compares with that of FP32."""
    name, low, high = str(row["variant"]), float(str(row["speedup_low"])), float(str(row["speedup_high"]))
    times = f"{key(workload, name, 'speedup')} times its speed"
    if math.isnan(low):
        return f"Of {code(str(row['label']))}, too few blocks were timed for an interval: it has {times}."
    if low > 1:
        verdict = "faster than FP32"
    elif high < 1:
        verdict = "slower than FP32"
    elif low > 1 - CLOSE and high < 1 + CLOSE:
        verdict = "as fast as FP32, to two per cent"
    else:
        verdict = "not told apart from FP32 by this measurement"
    return f"{code(str(row['label']))} is {verdict}: {times} (95\\,\\% interval {latex.interval(low, high)})."


def scaler(workload: str, row: dict[str, object]) -> str:
    """Return what a scaler costs at the same precision."""
    name = str(row["variant"])
    low, high = float(str(row["scaler_cost_low"])), float(str(row["scaler_cost_high"]))
    label, times = code(str(row["label"])), key(workload, name, "scaler_cost")
    told = "" if math.isnan(low) else f" (interval {latex.interval(low, high)})"
    if low > 1 or high < 1:
        return f"The scaler of {label} makes its step {times} times as long{told}."
    return (
        f"What the scaler of {label} costs is not told apart from nothing: with it, a step takes {times} times the time "
        f"that it takes without{told}."
    )


def disturbed(workload: str, timed: pd.DataFrame) -> list[str]:
    """Return a warning where the blocks of a variant lie far apart, as they do where the machine does other work."""
    noisy = timed[timed["disturbed"].eq(True)]
    if noisy.empty:
        return []
    worst = str(noisy["variant"].iloc[noisy["spread"].argmax()])
    return [
        rf"\emph{{The machine was not quiet}}: the quartiles of the blocks lie up to {key(workload, worst, 'spread')}\,\% "
        "apart, so that these ratios are coarse, and a speed-up whose interval is wide is not to be quoted."
    ]


def transfers(workload: str, timed: pd.DataFrame) -> list[str]:
    """Return how long a batch takes from the host to the device in each format."""
    known = timed[timed["transfer_ms"].notna()].drop_duplicates("precision")
    if known.empty:
        return []
    each = [
        f"{key(workload, str(row.variant), 'transfer_ms')}\\,ms for {str(row.precision).upper()}"
        for row in known.itertuples()
    ]
    return [f"Moving the inputs of a batch from the host to the device takes {listed(each)}."]


def clocks(workload: str, timed: pd.DataFrame) -> list[str]:
    """Return between which clocks a GPU ran, and how often power or heat held it back."""
    if timed["sm_clock_low"].isna().iloc[0]:
        return []
    low, high, held = (
        key(workload, str(timed["variant"].iloc[0]), name) for name in ("sm_clock_low", "sm_clock_high", "held_back")
    )
    return [
        f"The clock of the GPU lay between {low} and {high}\\,MHz meanwhile; power or heat held it back in {held}\\,\\% of the "
        "looks that were taken every second."
    ]


def not_timed(rows: pd.DataFrame) -> list[str]:
    """Return which variants have no time, and why."""
    numerics = rows.loc[rows["status"] == "numerics only", "label"]
    missing = rows.loc[rows["status"] == "unavailable", "label"]
    sentences = []
    if len(numerics):
        sentences.append(
            f"The CPU has no units for the format of {listed(map(code, numerics))}: the time would be an emulation's, and "
            "none was taken."
        )
    if len(missing):
        sentences.append(f"Not to be had on this device: {listed(map(code, missing))}.")
    return sentences


def key(workload: str, variant: str, name: str) -> str:
    return val("throughput", workload, variant, name)
