"""The rate of skipped steps that loss scaling settled into, held against its closed form and its bound."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from halfscale.analysis import latex
from halfscale.analysis.prose.measured import Measured
from halfscale.analysis.prose.words import code, number_word

SETTLED = 5
"""Growth intervals that every run of an arm must span before its rate is held against theory."""

HEAD = r"Workload & Arm & $N$ & $b$ & $p^{*}$ (\%) & measured (\%) & bound (\%) \\"


class Rate(NamedTuple):
    """The rate of skipped steps of one arm, calibration left out."""

    workload: str
    arm: str
    growth_interval: int
    backoff_factor: float
    mean_field: float
    measured: float
    bound: float


def equilibrium(measured: Measured) -> str:
    """Return a paragraph and a table, or a sentence where no arm runs long enough."""
    rates = list(settled_rates(measured))
    if not rates:
        return (
            f"No dynamic FP16 arm spans {number_word(SETTLED)} growth intervals, so none can be held against theory.\n"
        )
    between = sum(rate.mean_field <= rate.measured <= rate.bound for rate in rates)
    held = sum(rate.measured <= rate.bound for rate in rates)
    text = (
        r"Table~\ref{tab:equilibrium} holds the share of steps skipped after calibration against "
        r"Equations~\eqref{eq:bound} and~\eqref{eq:equilibrium}, for the dynamic FP16 arms whose runs span at least "
        f"{number_word(SETTLED)} growth intervals. The bound holds for {held} of {len(rates)}, and the share lies between "
        f"the two for {between or 'none'} of them. Both expressions assume a scale that does not drift: one that is still on its way up "
        "skips less.\n\n"
    )
    rows = [
        f"{code(rate.workload)} & {code(rate.arm)} & ${rate.growth_interval}$ & {latex.setting(rate.backoff_factor)} & "
        f"{latex.percent(rate.mean_field)} & {latex.percent(rate.measured)} & {latex.percent(rate.bound)} \\\\"
        for rate in rates
    ]
    caption = (
        r"Share of steps skipped after calibration, over all completed runs of an arm, beside the closed form $p^{*}$ for "
        "independent overflows and the upper bound. $N$ is the growth interval, $b$ the backoff factor."
    )
    lines = [
        r"\begin{table}[tbp]",
        rf"\centering\small\caption{{{caption}}}\label{{tab:equilibrium}}",
        r"\begin{tabular}{@{}llrrrrr@{}}",
        *[r"\toprule", HEAD, r"\midrule", *rows, r"\bottomrule"],
        r"\end{tabular}",
        r"\end{table}",
    ]
    return text + "\n".join(lines) + "\n"


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
            yield Rate(str(workload), str(arm), growth_interval, backoff_factor, mean_field, share, bound)


def equilibrium_rates(growth_factor: float, backoff_factor: float, growth_interval: int) -> tuple[float, float]:
    """Return p* = 1 - (1 + 1/beta)^(-1/N) and the bound 1 / (1 + beta N), beta = ln(1/bf) / ln(gf).

    The paper derives both, in "Where the scaler settles".
    """
    beta = -math.log(backoff_factor) / math.log(growth_factor)
    return 1 - (1 + 1 / beta) ** (-1 / growth_interval), 1 / (1 + beta * growth_interval)
