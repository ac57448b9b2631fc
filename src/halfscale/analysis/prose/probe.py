"""What the operating windows say, one paragraph a workload, and how well they predict the runs."""

import pandas as pd

from halfscale.analysis.latex import breakable
from halfscale.analysis.probe import DEFAULT
from halfscale.analysis.prose.words import counted, listed, number_word, percent, val


def probe(windows: pd.DataFrame, predictions: pd.DataFrame, flushed: pd.DataFrame) -> str:
    """Return one paragraph a workload.

    Args:
        windows: of tables/probe.csv.
        predictions: of tables/predicted_skips.csv.
        flushed: of tables/predicted_flushed.csv.
    """
    paragraphs = [
        rf"\paragraph{{{breakable(str(workload))}.}} "
        + paragraph(
            str(workload),
            rows,
            predictions[predictions["workload"] == workload],
            flushed[flushed["workload"] == workload],
        )
        for workload, rows in windows.groupby("workload", sort=False)
    ]
    return "\n\n".join(paragraphs) + "\n"


def paragraph(workload: str, rows: pd.DataFrame, predictions: pd.DataFrame, flushed: pd.DataFrame) -> str:
    """Return where a workload's windows lie, what lies outside them, and what they predict."""
    known = rows[rows["low"].notna()]
    if known.empty:
        return "At no scale that was tried is FP16's gradient finite and better than one of zeros."
    sentences = [
        *(window(workload, row) for row in records(rows)),
        default_scale(known),
        against_bf16(workload, known),
        *layers(known),
        *predicted(predictions),
        underflow(flushed),
    ]
    return " ".join(filter(None, sentences))


def records(rows: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(key): value for key, value in row.items()} for row in rows.to_dict("records")]


def window(workload: str, row: dict[str, object]) -> str:
    """Return where one window lies, and which of its ends is only the last scale that was tried."""
    step, flushed_known = int(str(row["step"])), not pd.isna(float(str(row["flushed_unscaled"])))
    when = "At its initial weights" if step == 0 else f"After {counted(step, 'step')}"
    if pd.isna(row["low"]):  # type: ignore[call-overload]
        return f"{when} there is no window."
    low, high, bits, flushed = (key(workload, row, name) for name in ("low", "high", "bits", "flushed_unscaled"))
    low += " or below" if row["low_open"] else ""
    high += " or above" if row["high_open"] else ""
    bits += " bits at least, as no scale beyond was tried" if row["low_open"] or row["high_open"] else " bits"
    return f"{when} the window reaches from {low} to {high}, {bits}" + (
        f"; without scaling {flushed}\\,\\% of the gradient's elements are flushed to zero." if flushed_known else "."
    )


def default_scale(rows: pd.DataFrame) -> str:
    """Return whether GradScaler's default lies in the windows, of those of which that is known."""
    rows = rows[rows["default_inside"].notna()]
    if rows.empty:
        return "Whether GradScaler's default of $2^{16}$ lies inside is not known: it is beyond the scales that were tried."
    inside = int(rows["default_inside"].astype(bool).sum())
    total = len(rows)
    if inside == total:
        return "GradScaler's default of $2^{16}$ lies inside every time."
    above, below = int((rows["high"] < DEFAULT).sum()), int((rows["low"] > DEFAULT).sum())
    where = listed(
        [
            f"above it {times(count)}" if name == "above" else f"below it {times(count)}"
            for name, count in (("above", above), ("below", below))
            if count
        ]
    )
    return f"GradScaler's default of $2^{{16}}$ lies inside {times(inside) if inside else 'never'}, {where}."


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{number_word(count)} times")


def against_bf16(workload: str, rows: pd.DataFrame) -> str:
    """Return how BF16's gradient compares with FP16's inside the window."""
    both = rows[rows["bf16_error"].notna() & rows["plateau"].gt(0)]
    if both.empty:
        return ""
    ratios = both["bf16_error"] / both["plateau"]
    least, most = f"{ratios.min():.1f}", f"{ratios.max():.1f}"
    sentence = (
        f"BF16 errs {least} times as much as FP16 inside it"
        if least == most
        else f"BF16 errs {least} to {most} times as much as FP16 inside it"
    )
    crossed = both[both["crossover"].notna() & ~both["crossover_open"].astype(bool)]
    if crossed.empty:
        return f"{sentence}."
    return f"{sentence}, and FP16 is worse than BF16 below scales of {listed(crossings(workload, crossed))}."


def crossings(workload: str, rows: pd.DataFrame) -> list[str]:
    """Return the crossover of each step, each value once."""
    first = rows.drop_duplicates("crossover")
    return [key(workload, row, "crossover") for row in records(first)]


def layers(rows: pd.DataFrame) -> list[str]:
    """Return whether one scale serves every parameter, and which parameters no scale serves."""
    overlap = rows[rows["layers_bits"].ge(0).fillna(False)]
    without = rows[rows["layers_without"] > 0]
    empty = int(rows["layers_bits"].lt(0).fillna(False).sum()) + len(without)
    sentences = []
    if empty and empty == len(rows):
        sentences.append(
            "The windows of all parameters have no scale in common: no single one serves all of them as well as it could."
        )
    elif empty:
        sentences.append(
            f"The windows of all parameters have no scale in common {times(empty)} of {number_word(len(rows))}."
        )
    elif len(overlap):
        sentences.append(f"The windows of all parameters overlap, in {least_bits(overlap)} or more.")
    if len(without):
        sentences.append(
            f"At no scale that was tried is FP16's gradient of {at_most(without['layers_without'])} finite and better than "
            "one of zeros: there is no window, and so none in common."
        )
    noisy = rows[rows["layers_noise"] > 0]
    if len(noisy):
        sentences.append(
            f"This leaves out {at_most(noisy['layers_noise'])} whose gradient is rounding noise: neither FP16 nor BF16 "
            "gives more of it than zeros would."
        )
    return sentences


def at_most(counts: pd.Series) -> str:
    """Return `up to three parameters`, where that is the most of the counts, or `one parameter`."""
    most = int(counts.max())
    return ("" if int(counts.min()) == most else "up to ") + counted(most, "parameter")


def least_bits(rows: pd.DataFrame) -> str:
    return counted(int(rows["layers_bits"].min()), "bit")


def predicted(predictions: pd.DataFrame) -> list[str]:
    """Return how often the windows predict the skipped steps of calibration and the scale at the end."""
    sentences = []
    skips = predictions[predictions["predicted_skips"].notna()]
    if len(skips):
        right = int((skips["predicted_skips"] == skips["skips"]).sum())
        near = int(((skips["predicted_skips"] - skips["skips"]).abs() <= 1).sum())
        sentences.append(
            f"Of {counted(len(skips), 'run')} with a dynamic scaler, the window at the initial weights predicts the skipped "
            f"steps of calibration exactly in {number_word(right)} and to one step in {number_word(near)}."
        )
    ends = predictions[predictions["predicted_scale"].notna()]
    if len(ends):
        below = int((ends["scale"] <= ends["predicted_scale"] + ends["growth"]).sum())
        sentences.append(
            f"At the end the scale is no more than one growth above the window's upper end in {number_word(below)} of "
            f"{number_word(len(ends))}."
        )
    return sentences


def underflow(flushed: pd.DataFrame) -> str:
    """Return how far the zeros that runs sampled of their first gradient are from those that the probe found."""
    if flushed.empty:
        return ""
    worst = float((flushed["observed"] - flushed["predicted"]).abs().max())
    low, high = (percent(float(bound)) for bound in (flushed["predicted"].min(), flushed["predicted"].max()))
    of = low if low == high else f"{low} to {high}"
    return (
        f"Where a run's first step is the one that was probed, the probe expects {of} of the gradient's elements to be "
        f"zero in FP16, those among them that are zero in FP32 too; the share that was sampled in {counted(len(flushed), 'run')} "
        f"differs from that by {percent(worst)} at the most."
    )


def key(workload: str, row: dict[str, object], name: str) -> str:
    """Return the command of one value of a window."""
    return val("probe", workload, str(row["step"]), name)
