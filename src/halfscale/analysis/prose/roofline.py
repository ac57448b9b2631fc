"""What data sheets allow, one paragraph a case."""

import pandas as pd

from halfscale.analysis.latex import breakable, escape
from halfscale.analysis.prose.words import number_word, val

WRITTEN = {"tf32": "TF32", "bf16": "BF16", "fp16": "FP16"}


def roofline(table: pd.DataFrame) -> str:
    """Return one paragraph a case."""
    paragraphs = [
        rf"\paragraph{{{breakable(str(case))}.}} {paragraph(rows)}" for case, rows in table.groupby("case", sort=False)
    ]
    return "\n\n".join(paragraphs) + "\n"


def paragraph(rows: pd.DataFrame) -> str:
    """Return the range of the least time in FP32 over the devices, and of the speed-up of each other precision."""
    base = rows[rows["precision"] == "fp32"]
    fast, slow = base.iloc[base["step_ms"].argmin()], base.iloc[base["step_ms"].argmax()]
    sentences = [
        f"A step at batch size {base['batch_size'].iloc[0]} takes {val('roofline', str(base['case'].iloc[0]), 'gflop')}\\,GFLOP, "
        f"and in FP32 no less than {key(fast, 'step_ms')}\\,ms on the {escape(str(fast['device']))} and "
        f"{key(slow, 'step_ms')}\\,ms on the {escape(str(slow['device']))}."
    ]
    for precision, own in rows[rows["precision"] != "fp32"].groupby("precision", sort=False):
        least, most = own.iloc[own["speedup"].argmin()], own.iloc[own["speedup"].argmax()]
        name = WRITTEN[str(precision)]
        if len(own) == 1:
            sentences.append(f"{name} allows {gain(least)}.")
        else:
            sentences.append(f"{name} allows between {gain(least)} and {gain(most)}.")
    lower = rows[rows["precision"].isin(["bf16", "fp16"])]
    bound = lower[lower["compute_bound"] < 0.5]["device"].nunique()
    if bound:
        devices = lower["device"].nunique()
        where = (
            f"all {number_word(devices)} devices"
            if bound == devices
            else f"{number_word(bound)} of {number_word(devices)} devices"
        )
        sentences.append(
            f"On {where}, more than half of a step in a 16-bit format is bound by memory and not by arithmetic: for that "
            "part a higher peak buys nothing."
        )
    return " ".join(sentences)


def gain(row: pd.Series) -> str:
    """Return a speed-up, the device it is on, and its Amdahl bound."""
    return f"{key(row, 'speedup')} times on the {escape(str(row['device']))} (Amdahl bound {key(row, 'amdahl')})"


def key(row: pd.Series, name: str) -> str:
    return val("roofline", str(row["case"]), str(row["device"]), str(row["precision"]), name)
