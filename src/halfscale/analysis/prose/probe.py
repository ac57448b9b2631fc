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
        return "FP16's gradient is finite at no scale that was tried."
    sentences = [
        *(window(workload, row) for row in records(known)),
        default_scale(known),
        against_bf16(workload, known),
    ]
    sentences += [layers(known), *predicted(predictions), underflow(flushed)]
    return " ".join(filter(None, sentences))


def records(rows: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(key): value for key, value in row.items()} for row in rows.to_dict("records")]


def window(workload: str, row: dict[str, object]) -> str:
    """Return where one window lies."""
    step, flushed_known = int(str(row["step"])), not pd.isna(float(str(row["flushed_unscaled"])))
    when = "At its initial weights" if step == 0 else f"After {counted(step, 'step')}"
    low, high, bits, flushed = (key(workload, row, name) for name in ("low", "high", "bits", "flushed_unscaled"))
    return f"{when} the window reaches from {low} to {high}, {bits} bits" + (
        f"; without scaling {flushed}\\,\\% of the gradient's elements are flushed to zero." if flushed_known else "."
    )


def default_scale(rows: pd.DataFrame) -> str:
    """Return whether GradScaler's default lies in the windows."""
    inside = int(rows["default_inside"].sum())
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
    crossed = both[both["crossover"].notna() & both["crossover"].gt(both["crossover"].min() - 1)]
    if crossed.empty:
        return f"{sentence}."
    return f"{sentence}, and FP16 is worse than BF16 below scales of {listed(crossings(workload, crossed))}."


def crossings(workload: str, rows: pd.DataFrame) -> list[str]:
    """Return the crossover of each step, each value once."""
    first = rows.drop_duplicates("crossover")
    return [key(workload, row, "crossover") for row in records(first)]


def layers(rows: pd.DataFrame) -> str:
    """Return whether one scale serves every parameter."""
    empty = int((rows["layers_bits"] < 0).sum())
    if not empty:
        return f"The windows of all parameters overlap, in {least_bits(rows)} bits or more."
    if empty == len(rows):
        return "The windows of all parameters have no scale in common: no single one serves all of them as well as it could."
    return f"The windows of all parameters have no scale in common {times(empty)} of {number_word(len(rows))}."


def least_bits(rows: pd.DataFrame) -> int:
    return int(rows["layers_bits"].min())


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
