"""What the predicted and the measured memory say, one paragraph a case."""

import pandas as pd

from halfscale.analysis.latex import breakable
from halfscale.analysis.prose.words import code, counted, listed, percent, val

ALIKE = 0.01
"""Relative difference of two peaks below which they are called the same."""

KEY = ["precision", "batch_size"]


def memory(table: pd.DataFrame, largest: pd.DataFrame) -> str:
    """Return one paragraph a case.

    Args:
        table: of tables/memory.csv.
        largest: of tables/largest_batch.csv.
    """
    paragraphs = [
        rf"\paragraph{{{breakable(str(case))}.}} {paragraph(rows, largest[largest['case'] == case])}"
        for case, rows in table.groupby("case", sort=False)
    ]
    return "\n\n".join(paragraphs) + "\n"


def paragraph(rows: pd.DataFrame, largest: pd.DataFrame) -> str:
    """Return what a case holds at its smallest and largest batch, what shrinks, and what fits."""
    cuda, cpu = (rows[rows["accounting"] == name] for name in ("cuda", "cpu"))
    halves = [name for name in ("bf16", "fp16") if name in set(rows["precision"])]
    if "fp32" not in set(rows["precision"]) or not halves:
        return measured(rows) or "Only one precision is predicted, so there is nothing to compare."
    half = halves[0]
    sentences = [extremes(cuda, half), shrinking(cuda, half), *saved_more(cuda, half), other_autocast(cuda, cpu, half)]
    return " ".join([*sentences, *fits(largest), measured(rows)]).strip()


def extremes(rows: pd.DataFrame, half: str) -> str:
    """Return the peaks at the smallest and the largest batch."""
    small, large = rows["batch_size"].min(), rows["batch_size"].max()
    sentence = (
        f"Under CUDA autocast a step at batch size {large} holds {key(rows, 'fp32', large, 'peak')}\\,GiB at its peak in "
        f"FP32 and {key(rows, half, large, 'peak')}\\,GiB in {half.upper()}, {key(rows, half, large, 'ratio')}\\,\\% of it"
    )
    return (
        f"{sentence}; at batch size {small} it is {key(rows, half, small, 'ratio')}\\,\\%."
        if small < large
        else f"{sentence}."
    )


def shrinking(rows: pd.DataFrame, half: str) -> str:
    """Return what the 16-bit precision halves and what it adds."""
    large = rows["batch_size"].max()
    return (
        f"What shrinks is activations, from {key(rows, 'fp32', large, 'activations')} to "
        f"{key(rows, half, large, 'activations')}\\,GiB at the larger of these; weights, their gradients and the "
        f"optimizer's state stay FP32, and for the time between forward and backward pass there are "
        f"{key(rows, half, large, 'copies')}\\,MiB of 16-bit copies of weights more, at every batch size."
    )


def saved_more(rows: pd.DataFrame, half: str) -> list[str]:
    """Return that a small batch saves more bytes for the backward pass in 16 bits than in FP32, if one does."""
    saved = rows.pivot_table(index="batch_size", columns="precision", values="saved")
    more = saved.index[saved[half] > saved["fp32"]]
    if more.empty:
        return []
    batch = int(more.max())
    return [
        f"In what is saved for the backward pass these copies outweigh the gain of a small batch: at batch size {batch} it is "
        f"{key(rows, half, batch, 'saved')}\\,MiB in {half.upper()} and {key(rows, 'fp32', batch, 'saved')}\\,MiB in FP32."
    ]


def other_autocast(cuda: pd.DataFrame, cpu: pd.DataFrame, half: str) -> str:
    """Return what CPU autocast keeps at the same batch."""
    large = cuda["batch_size"].max()
    there, here = (peaks.loc[(half, large), "peak"] for peaks in (cuda.set_index(KEY), cpu.set_index(KEY)))
    if abs(here / there - 1) < ALIKE:
        return "CPU autocast decides about some operations otherwise, and here takes the same to within 1\\,\\%."
    return (
        f"CPU autocast, which keeps other tensors, takes {key(cpu, half, large, 'peak')}\\,GiB, "
        f"{key(cpu, half, large, 'ratio')}\\,\\% of FP32."
    )


def fits(largest: pd.DataFrame) -> list[str]:
    """Return by which factors the largest batch grows, over the devices that have both precisions."""
    predicted = largest[largest["how"] == "predicted"].pivot_table(
        index="device", columns="precision", values="batch_size", sort=False
    )
    sentences = []
    for half in (name for name in ("bf16", "fp16") if name in predicted):
        factors = (predicted[half] / predicted["fp32"])[predicted["fp32"] > 0].dropna()
        if len(factors):
            least, most = f"{factors.min():.2f}", f"{factors.max():.2f}"
            by = least if least == most else f"{least} to {most}"
            sentences.append(
                f"The largest batch that fits grows by a factor of {by} in {half.upper()} over the "
                f"{counted(len(factors), 'device')} that have that format."
            )
    ran = largest[largest["how"] == "searched"]
    if len(ran):
        tried = [f"{row.batch_size} in {str(row.precision).upper()}" for row in ran.itertuples()]
        sentences.append(
            f"On {code(str(ran['device'].iloc[0]))} the largest batch that really ran was {listed(tried)}."
        )
    return sentences


def measured(rows: pd.DataFrame) -> str:
    """Return how far what was measured lies from what was predicted."""
    residuals = rows["residual"].dropna()
    if residuals.empty:
        return ""
    if len(residuals) == 1:
        return f"Run in a fresh process on this device, it took {percent(residuals.iloc[0])} more than predicted."
    low, high = percent(residuals.min()), percent(residuals.max())
    return (
        f"The {counted(len(residuals), 'step')} that were also run on this device, each in a fresh process, took between {low} and "
        f"{high} more than predicted."
    )


def key(rows: pd.DataFrame, precision: str, batch: int, name: str) -> str:
    """Return the command of one value of a case and an accounting."""
    first = rows.iloc[0]
    return val("memory", str(first["case"]), str(first["accounting"]), precision, str(batch), name)
