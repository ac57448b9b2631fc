"""What runs sampled of themselves, one paragraph a workload."""

import pandas as pd

from halfscale.analysis.latex import breakable
from halfscale.analysis.probe import DEFAULT
from halfscale.analysis.prose.measured import Measured
from halfscale.analysis.prose.words import code, val
from halfscale.analysis.samples import arm_samples, flushed_share


def samples(measured: Measured) -> str:
    """Return one paragraph a workload."""
    assert measured.samples is not None
    rows, exponents = measured.samples
    arms = arm_samples(rows)
    paragraphs = [
        rf"\paragraph{{{breakable(workload.name)}.}} "
        + paragraph(measured, workload.name, arms[arms["workload"] == workload.name], exponents)
        for workload in measured.plan.study.workloads
    ]
    return "\n\n".join(paragraphs) + "\n"


def paragraph(measured: Measured, workload: str, arms: pd.DataFrame, exponents: pd.DataFrame) -> str:
    """Return what one workload's runs sampled."""
    reference = arms[arms["arm"] == measured.reference]
    sentences = [
        gradients(workload, exponents),
        lost(workload, measured.reference, reference),
        sharp(workload, measured.reference, reference),
        headroom(workload, arms),
        distance(measured, workload, arms),
    ]
    return " ".join(filter(None, sentences))


def gradients(workload: str, exponents: pd.DataFrame) -> str:
    """Return how much of the reference's gradient FP16 would flush to zero, without a scale and with the default one."""
    steps = exponents.loc[(exponents["workload"] == workload) & exponents["exponent"].notna(), "step"]
    if steps.empty:
        return "Every gradient that was sampled is zero."
    first, last = int(steps.min()), int(steps.max())
    if (flushed_share(exponents, workload, last) or 0) == 0 == (flushed_share(exponents, workload, first) or 0):
        return "None of the gradient elements that were sampled is so small that FP16 would flush it to zero unscaled."
    start = rf"{key(workload, 'flushed_first')}\,\% at step {key(workload, 'first')} and "
    return (
        "Unscaled, FP16 would flush to zero "
        + (start if last > first else "")
        + rf"{key(workload, 'flushed_last')}\,\% at step {key(workload, 'last')} of the reference's gradient elements that "
        rf"are not zero; at a scale of $2^{{{DEFAULT}}}$ it flushes {key(workload, 'flushed_default')}\,\% of the latter."
    )


def lost(workload: str, arm: str, rows: pd.DataFrame) -> str:
    """Return which share of the reference's updates half-precision weights would lose."""
    if rows["lost_bf16"].isna().all():
        return ""
    return (
        rf"Of the updates of its last sampled step, weights in BF16 would lose {key(workload, arm, 'lost_bf16')}\,\% and "
        rf"weights in FP16 {key(workload, arm, 'lost_fp16')}\,\%."
    )


def sharp(workload: str, arm: str, rows: pd.DataFrame) -> str:
    """Return how sharp the loss is in the logits at the reference's end."""
    if rows["sharpness"].isna().all():
        return ""
    return rf"The sharpness of its loss in the logits is then {key(workload, arm, 'sharpness')}\,\%."


def headroom(workload: str, arms: pd.DataFrame) -> str:
    """Return how close the scaled gradient came to overflow on a sampled step, in the arm that came closest."""
    known = arms[arms["headroom"].notna()]
    if known.empty:
        return ""
    arm = str(known.sort_values("headroom", kind="stable")["arm"].iloc[0])
    return (
        f"The least headroom of any sampled step whose gradient was finite is {key(workload, arm, 'headroom')} bits, in "
        f"{code(arm)}."
    )


def distance(measured: Measured, workload: str, arms: pd.DataFrame) -> str:
    """Return how far the nearest and the farthest arm are from the reference in the end, in units of the twin's distance."""
    compared = [arm for arm, other in measured.references.items() if arm != other and arm not in measured.twins]
    known = arms[arms["arm"].isin(compared) & arms["distance_ratio"].notna()]
    if known.empty:
        return ""
    near, far = (
        str(known.sort_values("distance_ratio", ascending=upwards, kind="stable")["arm"].iloc[0])
        for upwards in (True, False)
    )
    if near == far:
        return (
            f"At its last sampled step {code(near)} is {ratio(workload, near)} times as far from FP32 as the twin is."
        )
    return (
        f"At their last sampled step the arms are between {ratio(workload, near)} ({code(near)}) and "
        f"{ratio(workload, far)} ({code(far)}) times as far from FP32 as the twin is."
    )


def ratio(workload: str, arm: str) -> str:
    return key(workload, arm, "distance_ratio")


def key(*parts: str) -> str:
    """Return the command of one value."""
    return val("samples", *parts)
