"""What the arms came to: their losses, how far from the reference, and which agree bit for bit."""

import math
from collections.abc import Iterable, Sequence

import pandas as pd

from halfscale.analysis import latex
from halfscale.analysis.prose.measured import Measured, by_arm, contains_zero
from halfscale.analysis.prose.words import code, codes, listed, val
from halfscale.study.arm import Arm

HELD_OUT = {
    "eval_loss": ("loss", " nats", latex.number),
    "eval_accuracy": ("accuracy", r"\,\%", latex.percent),
}
"""What is measured on held-out samples: its name, its unit, and how its numbers are written."""

TINY = 1e-4
"""Gap of a twin, nats, that no loss of three digits shows."""


def loss(workload: str, measured: Measured) -> str:
    """Return what loss the arms of a workload reached."""
    completed = measured.arms[measured.arms["completed"] > 0]
    means = by_arm(completed, completed["final_loss"])
    reference = measured.reference
    if reference not in means:
        return f"The reference {code(reference)} completed no run of this workload."
    text = f"{code(reference)} ends at a training loss of {val(workload, reference, 'final_loss')} nats"
    if by_arm(completed, completed["final_excess"].notna())[reference]:
        text += (
            f", an excess of {val(workload, reference, 'final_excess')} over the source's own loss on the same samples, "
            f"whose expectation, {val(workload, 'floor')} nats, is the floor in the figure."
        )
    else:
        text += "."
    del means[reference]
    if len(means) == 1:
        text += "".join(f" {code(name)} ends at {val(workload, name, 'final_loss')}." for name in means)
    elif means:
        ends = [min(means, key=means.__getitem__), max(means, key=means.__getitem__)]
        low, high = (f"{val(workload, name, 'final_loss')} ({code(name)})" for name in ends)
        if latex.number(means[ends[0]]) == latex.number(means[ends[1]]):
            text += f" The means of the other arms are {val(workload, ends[0], 'final_loss')} to the digits given here."
        else:
            text += f" The means of the other arms lie between {low} and {high}."
    return " ".join([text, *held_out(workload, completed, measured)])


def held_out(workload: str, completed: pd.DataFrame, measured: Measured) -> list[str]:
    """Return which arm differs most from the reference on held-out samples, in loss and in accuracy.

    Arms at another learning rate are left out: they would differ by that.
    """
    reference = measured.reference
    usual = [arm.name for arm in measured.plan.arms if arm.lr_factor == 1]
    alike = completed["arm"].isin(usual)
    which = "" if alike.all() else " at its learning rate"
    completed = completed[alike]
    sentences = []
    for measure, (noun, unit, written) in HELD_OUT.items():
        values = by_arm(completed, completed[measure])
        apart = {name: abs(value - values[reference]) for name, value in values.items() if name != reference}
        apart = {name: distance for name, distance in apart.items() if not math.isnan(distance)}
        if not apart:
            continue
        name = max(apart, key=apart.__getitem__)
        here, base = (f"{val(workload, arm, measure)}{unit}" for arm in (name, reference))
        if written(values[name]) == written(values[reference]):
            sentences.append(
                f"No arm's held-out {noun}{which} differs from that of {code(reference)}, {base}, in these digits."
            )
        else:
            sentences.append(
                f"The held-out {noun} that differs most{which} from that of {code(reference)}, {base}, is that of {code(name)}, "
                f"{here}."
            )
    return sentences


def gap(workload: str, measured: Measured) -> str:
    """Return how far the arms of a workload ended from the reference, and whether their intervals contain zero."""
    judged = measured.arms[measured.arms["gap_n"] > 1]
    sentences = [] if len(judged) else [without_intervals(workload, measured)]
    twins = [name for name in measured.twins if name in set(judged["arm"])]
    for name in twins[:1]:
        sentences.append(f"The mean gap of the twin {code(name)} is {interval(workload, name)}.")
        if measured.gaps.loc[measured.gaps["arm"] == name, "gap"].abs().max() < TINY:
            sentences.append(
                "So little has rounding grown in a run of this length; the noise floor of a longer one is for a twin of "
                "its own to show."
            )
    treated = judged[~judged["arm"].isin(measured.twins)]
    zero = contains_zero(treated)
    inside, outside = treated.loc[zero, "arm"], treated.loc[~zero, "arm"]
    if len(outside):
        others = "; it contains zero for every other arm that has one" if len(inside) else ""
        sentences.append(f"The interval excludes zero for {apart(workload, treated[~zero])}{others}.")
    elif len(inside) == 1:
        name = inside.iloc[0]
        sentences.append(f"The mean gap of {code(name)} is {interval(workload, name)}; the interval contains zero.")
    elif len(inside):
        alone = len(inside) == len(measured.treatments)
        sentences.append(f"The interval of every arm{'' if alone else ' that has one'} contains zero.")
    if twins and len(treated):
        sentences.append(beyond_twin(measured.gaps, twins[0], treated))
    lacking = measured.treatments.query("gap_n < 2 and n > 1")["arm"]
    if len(judged) and len(lacking):
        sentences.append(f"Too few blocks of {codes(lacking)} are complete for an interval.")
    return " ".join([*sentences, *same_loss(measured), *scaling_without_effect(measured)])


def apart(workload: str, arms: pd.DataFrame) -> str:
    """Return the arms whose interval excludes zero: up to three with their gaps, of more only the one farthest away."""
    if len(arms) <= 3:
        return listed((f"{code(name)}, whose mean gap is {interval(workload, name)}" for name in arms["arm"]), "; ")
    gaps = by_arm(arms, arms["gap"].abs())
    farthest = max(gaps, key=gaps.__getitem__)
    return f"{codes(arms['arm'])}, of which {code(farthest)} lies farthest out, at {interval(workload, farthest)}"


def without_intervals(workload: str, measured: Measured) -> str:
    """Return that there are no intervals, and the largest of the single gaps."""
    single = measured.arms[measured.arms["gap"].notna()]
    text = "No arm has the two complete blocks that an interval takes"
    if single.empty:
        return f"{text}."
    gaps = by_arm(single, single["gap"].abs())
    farthest = max(gaps, key=gaps.__getitem__)
    return f"{text}; the largest gap in magnitude is that of {code(farthest)}, {val(workload, farthest, 'gap')} nats."


def beyond_twin(gaps: pd.DataFrame, twin: str, treated: pd.DataFrame) -> str:
    """Compare each arm's mean gap with the largest gap that the twin shows in any block."""
    largest = gaps.loc[gaps["arm"] == twin, "gap"].abs().max()
    beyond = treated.loc[treated["gap"].abs() > largest, "arm"]
    if beyond.empty:
        return "No arm's mean gap is larger in magnitude than the largest that the twin shows in a single block."
    which = every(beyond, treated["arm"])
    rest = "; that of every other arm is not" if len(beyond) < len(treated) else ""
    return f"In magnitude, the mean gap of {which} is larger than any that the twin shows in a single block{rest}."


def every(some: Iterable[str], names: Iterable[str]) -> str:
    """Return some of these names; `every arm` for all of them, and `every arm but` where that is the shorter list."""
    some, names = list(some), list(names)
    left = [name for name in names if name not in some]
    if len(names) == 1 or len(left) >= len(some):
        return codes(some)
    return f"every arm but {codes(left)}" if left else "every arm"


def same_loss(measured: Measured) -> list[str]:
    """Return which FP16 arms reached the same loss, bit for bit, in every block."""
    losses = final_losses(measured, [arm.name for arm in measured.plan.arms if arm.precision == "fp16"])
    groups: dict[tuple[float, ...], list[str]] = {}
    for name, values in losses.items():
        if not any(map(math.isnan, values)):
            groups.setdefault(values, []).append(name)
    alike = [names for names in groups.values() if len(names) > 1]
    return [f"{codes(names)} ended with the same loss, bit for bit, in every block." for names in alike]


def scaling_without_effect(measured: Measured) -> list[str]:
    """Hold arms that scale the loss outside FP16 against the prediction that this changes nothing."""
    arms = [arm for arm in measured.plan.arms if arm.name in set(measured.arms["arm"])]
    losses = final_losses(measured, [arm.name for arm in arms])
    sentences = []
    for arm in arms:
        partner = unscaled_partner(arm, arms)
        if partner is None:
            continue
        both = f"{code(arm.name)} and {code(partner)}"
        if losses[arm.name] == losses[partner]:
            sentences.append(
                r"As Section~\ref{sec:scaling} predicts, scaling the loss changes nothing outside FP16: "
                f"{both} ended with the same loss, bit for bit, in every block."
            )
        else:
            sentences.append(
                rf"Against the prediction of Section~\ref{{sec:scaling}}, {both} did not end with the same loss in every block."
            )
    return sentences


def unscaled_partner(arm: Arm, others: Sequence[Arm]) -> str | None:
    """Return the arm that differs from one outside FP16 in having no loss scaling; None where there is none."""
    if arm.precision == "fp16" or arm.effective_loss_scaling.kind == "none":
        return None
    for other in others:
        keys = ("precision", "perturb", "inject", "lr_factor")
        alike = all(getattr(other, key) == getattr(arm, key) for key in keys)
        if alike and other.effective_loss_scaling.kind == "none":
            return other.name
    return None


def final_losses(measured: Measured, names: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Return the final loss of each arm that has runs, by block in the order of the seeds."""
    losses = {name: measured.runs.loc[measured.runs["arm"] == name, "final_loss"] for name in names}
    return {name: tuple(values) for name, values in losses.items() if len(values)}


def interval(workload: str, arm: str) -> str:
    gap, low, high = (val(workload, arm, key) for key in ("gap", "gap_low", "gap_high"))
    return f"{gap} nats (95\\,\\% interval {low} to {high})"
