"""What the loss scale did: where it went, which steps it skipped and why."""

import math

import pandas as pd

from halfscale.analysis import latex
from halfscale.analysis.prose.measured import Measured, by_arm
from halfscale.analysis.prose.words import code, codes, listed, number_word, percent, val
from halfscale.analysis.skips import CAUSES

CAUSE_TEXTS = dict(zip(CAUSES, ("in calibration", "as growth probes", "sporadically"), strict=True))


def scale(workload: str, measured: Measured) -> str:
    """Return where the dynamic scales of a workload began and ended, in FP16 and elsewhere."""
    dynamic = measured.arms[(measured.arms["loss_scaling"] == "dynamic") & (measured.arms["completed"] > 0)]
    fp16 = dynamic["precision"] == "fp16"
    sentences = scale_in_fp16(workload, dynamic[fp16])
    for name in dynamic.loc[~fp16, "arm"]:
        sentences.append(f"Outside FP16, the scale of {code(name)} went {from_to(workload, name)}.")
    return " ".join(sentences)


def scale_in_fp16(workload: str, arms: pd.DataFrame) -> list[str]:
    if arms.empty:
        return ["No FP16 arm of this workload completed a run with a scale that moves."]
    bits = by_arm(arms, (arms["final_scale"] / arms["init_scale"]).map(math.log2))
    lowest, highest = min(bits, key=bits.__getitem__), max(bits, key=bits.__getitem__)
    if len(arms) == 1:
        return [f"The scale of {code(lowest)} went {from_to(workload, lowest)} in its median run."]
    began, ended = spread(arms["init_scale"]), spread(arms["final_scale"])
    count = number_word(len(arms))
    sentences = [f"The {count} dynamic FP16 arms began {began} and ended, in their median runs, {ended}."]
    if bits[lowest] < 0:
        sentences.append(f"The scale of {code(lowest)} came down farthest, {from_to(workload, lowest)}.")
    if bits[highest] > 0:
        sentences.append(f"The scale of {code(highest)} rose most, {from_to(workload, highest)}.")
    still = arms.loc[(arms["growths"] == 0) & (arms["backoffs"] == 0), "arm"]
    if len(still):
        sentences.append(f"The scale of {codes(still)} never moved.")
    return sentences


def skips(workload: str, measured: Measured) -> str:
    """Return how many steps of a workload were skipped, and why."""
    scaled = measured.arms[measured.arms["loss_scaling"] != "none"]
    return " ".join([*skips_counted(scaled, measured.runs), *overflows_applied(workload, measured.arms)])


def skips_counted(scaled: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    if scaled.empty:
        return ["No arm of this workload scales its loss, so no step can be skipped."]
    distinct = runs[runs["loss_scaling"] != "none"].drop_duplicates("run_id")
    steps, skipped = distinct["steps"].sum(), distinct["skipped"].sum()
    if not skipped:
        return [f"None of the ${steps}$ steps that were run with a scaled loss was skipped."]
    counts = {text: distinct[f"skipped_{cause}"].sum() for cause, text in CAUSE_TEXTS.items()}
    causes = [f"${count}$ {text}" for text, count in counts.items() if 0 < count < skipped]
    causes = causes or [f"all of them {text}" for text, count in counts.items() if count]
    total = f"Of the ${steps}$ steps that were run with a scaled loss, ${skipped}$ were skipped"
    counted = f"{total} ({percent(skipped / steps)}): {listed(causes)}."
    if len(scaled) == 1:
        return [counted]
    shares = by_arm(scaled, scaled["skipped"] / scaled["steps"])
    spared = [name for name, share in shares.items() if share == 0]
    largest = max(shares, key=shares.__getitem__)
    most = f"The largest share, {percent(shares[largest])}, is that of {code(largest)}"
    none = f"; {codes(spared)} skipped none." if spared else "."
    return [counted, most + none]


def overflows_applied(workload: str, arms: pd.DataFrame) -> list[str]:
    """Return what overflow did where no scaler could skip its step."""
    bare = arms[(arms["loss_scaling"] == "none") & (arms["overflows"] > 0)]
    return [
        f"{code(name)} has no scaler that could skip a step; it met an overflow in {val(workload, name, 'overflows')} of "
        f"{val(workload, name, 'steps')} steps and applied the update."
        for name in bare["arm"]
    ]


def from_to(workload: str, arm: str) -> str:
    return f"from {val(workload, arm, 'init_scale')} to {val(workload, arm, 'final_scale')}"


def spread(scales: pd.Series) -> str:
    low, high = latex.scale(scales.min()), latex.scale(scales.max())
    return f"at {low}" if low == high else f"between {low} and {high}"
