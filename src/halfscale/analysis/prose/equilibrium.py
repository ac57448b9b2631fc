"""The rate of skipped steps that loss scaling settled into, held against its closed form and its bound."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from halfscale.analysis import latex
from halfscale.analysis.prose.measured import Measured
from halfscale.analysis.prose.words import code, listed, number_word
from halfscale.analysis.shown import Shown

SETTLED = 5
"""Growth intervals that every run of an arm must span before its rate is held against theory."""

MOST_RATES = 16
"""Rows that the table has room for on a page, shared by the workloads."""

NAMES = r">{\raggedright\arraybackslash}p{%s}"
HEAD = r"Workload & Arm & $N$ & $b$ & $D$ & $p^{*}$ (\%) & measured (\%) & bound (\%) \\"
CAPTION = (
    r"Share of steps skipped after calibration, over all completed runs of an arm, beside the closed form $p^{*}$ for "
    r"independent overflows and the upper bound, both for a scale that does not drift. $N$: growth interval; $b$: "
    r"backoff factor; $D$: drift of the scale over the counted steps (Equation~\ref{eq:drift}), in growths, mean over "
    "the runs."
)


class Rate(NamedTuple):
    """The rate of skipped steps of one arm, calibration left out."""

    workload: str
    arm: str
    growth_interval: int
    backoff_factor: float
    drift: float
    """Growths less the growths that would undo the backoffs, mean over the runs."""
    mean_field: float
    measured: float
    bound: float
    """For a scale that does not drift."""
    drift_bound: float
    """For the drift that there was."""


def equilibrium(measured: Measured) -> str:
    """Return a paragraph and a table, or a sentence where no arm runs long enough."""
    rates = list(settled_rates(measured))
    if not rates:
        return (
            f"No dynamic FP16 arm spans {number_word(SETTLED)} growth intervals, so none can be held against theory.\n"
        )
    sentences = [
        r"Table~\ref{tab:equilibrium} holds the share of steps skipped after calibration against "
        r"Equations~\eqref{eq:bound} and~\eqref{eq:equilibrium}, for the dynamic FP16 arms whose runs span at least "
        f"{number_word(SETTLED)} growth intervals. Both equations are about a scale that does not drift.",
        drifts(rates),
        bounds(rates),
    ]
    arms: dict[str, list[str]] = {}
    for rate in rates:
        arms.setdefault(rate.workload, []).append(rate.arm)
    shown = Shown.choose(arms, max(1, MOST_RATES // len(arms)), measured.plan.arms, ())
    caption = f"{CAPTION} {latex.escape(shown.sentence('tables/arms.csv has the counts of all'))}".strip()
    rows = [
        f"{code(rate.workload)} & {code(rate.arm)} & ${rate.growth_interval}$ & {latex.setting(rate.backoff_factor)} & "
        f"{signed(rate.drift)} & {latex.percent(rate.mean_field)} & {latex.percent(rate.measured)} & "
        f"{latex.percent(rate.bound)} \\\\"
        for rate in rates
        if rate.arm in shown.arms[rate.workload]
    ]
    lines = [
        r"\begin{table}[tbp]",
        rf"\centering\small\setlength{{\tabcolsep}}{{4pt}}\caption{{{caption}}}\label{{tab:equilibrium}}",
        rf"\begin{{tabular}}{{@{{}}{NAMES % '2.6cm'}{NAMES % '4.2cm'}rrrrrr@{{}}}}",
        *[r"\toprule", HEAD, r"\midrule", *rows, r"\bottomrule"],
        r"\end{tabular}",
        r"\end{table}",
    ]
    return " ".join(sentences) + "\n\n" + "\n".join(lines) + "\n"


def drifts(rates: Sequence[Rate]) -> str:
    """Say of which arms the scale ended lower, higher or level over the counted steps."""
    directions = {
        "lower than it began": [rate for rate in rates if rate.drift < 0],
        "higher than it began": [rate for rate in rates if rate.drift > 0],
        "where it began": [rate for rate in rates if rate.drift == 0],
    }
    parts = [f"{where} for {named(those, rates)}" for where, those in directions.items() if those]
    return f"On average over its runs, and over the counted steps, the scale ended {listed(parts, '; ')}."


def bounds(rates: Sequence[Rate]) -> str:
    """Say where the measured share lies: within the bound or beyond, with the drift allowed for and without."""
    beyond = [rate for rate in rates if rate.measured > rate.bound]
    between = [rate for rate in rates if rate.mean_field <= rate.measured <= rate.bound]
    below = [rate for rate in rates if rate.measured < rate.mean_field]
    broken = [rate for rate in rates if rate.measured > rate.drift_bound * (1 + 1e-12)]
    parts = []
    if beyond:
        fell = all(rate.drift < 0 for rate in beyond)
        parts.append(
            f"exceeds the bound for {named(beyond, rates)}" + (", as it may where a scale falls" if fell else "")
        )
    if between:
        parts.append(f"lies between the two for {named(between, rates)}")
    if below:
        rose = all(rate.drift > 0 for rate in below)
        parts.append(f"lies below both for {named(below, rates)}" + (", as it may where a scale rises" if rose else ""))
    text = f"The share {listed(parts, '; ')}."
    if broken:
        return f"{text} Even with the drift allowed for, Equation~\\eqref{{eq:driftbound}} fails for {named(broken, rates)}."
    return f"{text} Equation~\\eqref{{eq:driftbound}}, which allows for the drift, holds throughout."


def named(some: Sequence[Rate], rates: Sequence[Rate]) -> str:
    """Return the arms of some rates, with the workloads where the rates are of several."""
    if len(some) == len(rates) > 2:
        return "every arm"
    several = len({rate.workload for rate in rates}) > 1
    return listed(code(rate.arm) + (f" on {code(rate.workload)}" if several else "") for rate in some)


def signed(drift: float) -> str:
    return f"${drift:+.1f}$" if drift else "$0$"


def settled_rates(measured: Measured) -> Iterator[Rate]:
    """Yield the rate of each dynamic FP16 arm whose completed runs are long enough.

    An arm with injected overflow is left out: its rate says nothing about the scaler.
    """
    natural = [arm.name for arm in measured.plan.arms if arm.inject is None]
    runs = measured.runs[(measured.runs["status"] == "completed") & measured.runs["arm"].isin(natural)]
    dynamic = runs[(runs["loss_scaling"] == "dynamic") & (runs["precision"] == "fp16")]
    for (workload, arm), own in dynamic.groupby(["workload", "arm"], sort=False):
        growth_interval = int(own["growth_interval"].iloc[0])
        steps = own["steps"] - own["skipped_calibration"]
        if steps.min() >= SETTLED * (growth_interval + 1):
            growth_factor, backoff_factor = (float(own[key].iloc[0]) for key in ("growth_factor", "backoff_factor"))
            mean_field, bound = equilibrium_rates(growth_factor, backoff_factor, growth_interval)
            share = float((own["skipped"] - own["skipped_calibration"]).sum() / steps.sum())
            beta = growths_per_backoff(growth_factor, backoff_factor)
            drifts = own["growths"] - beta * (own["backoffs"] - own["skipped_calibration"])
            drift = round(float(drifts.mean()), 9)  # so that rounding in beta makes no drift
            yield Rate(
                workload=str(workload),
                arm=str(arm),
                growth_interval=growth_interval,
                backoff_factor=backoff_factor,
                drift=drift,
                mean_field=mean_field,
                measured=share,
                bound=bound,
                drift_bound=bound * (1 - growth_interval * drift / float(steps.mean())),
            )


def equilibrium_rates(growth_factor: float, backoff_factor: float, growth_interval: int) -> tuple[float, float]:
    """Return p* = 1 - (1 + 1/beta)^(-1/N) and the bound 1 / (1 + beta N), beta = ln(1/bf) / ln(gf).

    The paper derives both, in "Where the scaler settles".
    """
    beta = growths_per_backoff(growth_factor, backoff_factor)
    return 1 - (1 + 1 / beta) ** (-1 / growth_interval), 1 / (1 + beta * growth_interval)


def growths_per_backoff(growth_factor: float, backoff_factor: float) -> float:
    """Return beta = ln(1/bf) / ln(gf), the number of growths that undo one backoff."""
    return -math.log(backoff_factor) / math.log(growth_factor)
