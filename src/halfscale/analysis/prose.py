"""The sentences of the paper that depend on the study: the numbers decide which of them are true.

Each function returns LaTeX. A number that belongs to one arm stands as a \\val key of macros.tex; what is counted or
compared over several arms is counted here. No sentence names a model, an arm or a workload that the study lacks.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pandas as pd

from halfscale.analysis import latex
from halfscale.analysis.collect import read_csv, read_plan, read_runs
from halfscale.analysis.latex import escape
from halfscale.analysis.skips import CAUSES
from halfscale.analysis.tables import read_arms
from halfscale.study.arm import Arm
from halfscale.study.runs import Plan
from halfscale.study.workload import Workload

MODELS = {"resnet50": "ResNet-50", "transformer": "a small transformer"}
"""Models as the abstract calls them; others go by their names in the config."""

OPTIMIZERS = {"sgd": "SGD", "adamw": r"AdamW \citep{loshchilov2019decoupled}"}

CAUSE_TEXTS = dict(zip(CAUSES, ("in calibration", "as growth probes", "sporadically"), strict=True))

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")

SETTLED = 5
"""Growth intervals that runs must span before their rate of skipped steps is held against theory (METHOD 6)."""


@dataclass(frozen=True)
class Measured:
    """A study's plan and tables."""

    plan: Plan
    runs: pd.DataFrame
    arms: pd.DataFrame
    gaps: pd.DataFrame

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a study whose tables are written.

        Raises:
            RecordError: plan.json is missing or no plan.
            OSError: a table is missing.
        """
        gaps = read_csv(folder / "tables" / "gaps.csv")
        return cls(plan=read_plan(folder), runs=read_runs(folder), arms=read_arms(folder), gaps=gaps)

    def of(self, workload: str) -> Self:
        """Return the part of one workload."""
        parts = (table[table["workload"] == workload] for table in (self.runs, self.arms, self.gaps))
        return type(self)(self.plan, *parts)

    @property
    def reference(self) -> str:
        return self.plan.study.reference

    @property
    def twins(self) -> list[str]:
        """The arms that are the reference but for one ulp in every initial weight."""
        return [arm.name for arm in self.plan.arms if arm.precision == "fp32" and arm.perturb == "ulp"]


def write_prose(measured: Measured, described: Iterable[str]) -> dict[str, str]:
    """Return every generated part of the paper by file name.

    Args:
        measured: the study.
        described: the model and data descriptions that the paper's sources hold, such as "models/resnet50".
    """
    return {
        "definitions": definitions(measured.plan),
        "abstract_findings": abstract_findings(measured),
        "arms_defined": arms_defined(measured.plan),
        "twin": twin(measured),
        "workloads": workloads(measured.plan, set(described)),
        "completion": completion(measured),
        "scale": by_workload(measured, scale),
        "skips": by_workload(measured, skips),
        "loss": by_workload(measured, loss),
        "gap": by_workload(measured, gap),
    }


def by_workload(measured: Measured, write: Callable[[str, Measured], str]) -> str:
    """Return one paragraph a workload, headed by its name."""
    names = [workload.name for workload in measured.plan.study.workloads]
    return "\n\n".join(rf"\paragraph{{{escape(name)}.}} {write(name, measured.of(name))}" for name in names) + "\n"


# Method


def definitions(plan: Plan) -> str:
    """Return \\newcommand lines for what the fixed sections say about this study."""
    models = dict.fromkeys(MODELS.get(workload.model, code(workload.model)) for workload in plan.study.workloads)
    threads = plan.study.threads
    commands = {
        "studymodels": listed(models),
        "studythreads": "one CPU thread each" if threads == 1 else f"{threads} CPU threads each",
        "longestrun": str(max(workload.steps for workload in plan.study.workloads)),
    }
    return "".join(f"\\newcommand{{\\{name}}}{{{text}}}\n" for name, text in commands.items())


def arms_defined(plan: Plan) -> str:
    """Return a table of the arms by precision: what each of them is."""
    wide = r">{\raggedright\arraybackslash}p{%s}"
    columns = [
        latex.Column("Arm", "", wide % "4.2cm"),
        latex.Column("Loss scaling", "", "l"),
        latex.Column("Otherwise", "", wide % "4.4cm"),
    ]
    caption = (
        "The arms, by precision. $S_0$ is the initial scale, $N$ the growth interval in steps, $\\gamma$ the growth factor "
        "and $b$ the backoff factor; the scale $S$ of static loss scaling never changes."
    )
    groups = []
    for precision in dict.fromkeys(arm.precision for arm in plan.arms):
        arms = [arm for arm in plan.arms if arm.precision == precision]
        groups.append(
            (precision.upper(), [[breakable_code(arm.name), scaling_text(arm), arm_notes(arm)] for arm in arms])
        )
    return latex.longtable(columns, groups, caption=caption, label="tab:treatments")


def scaling_text(arm: Arm) -> str:
    """Return an arm's loss scaling in symbols."""
    scaling = arm.effective_loss_scaling
    if scaling.kind == "none":
        return "none"
    if scaling.kind == "static":
        return f"static, $S = {inner(latex.scale(scaling.scale))}$"
    growth, backoff = (inner(latex.setting(factor)) for factor in (scaling.growth_factor, scaling.backoff_factor))
    start = f"$S_0 = {inner(latex.scale(scaling.init_scale))}$"
    return rf"dynamic, {start}, $N = {scaling.growth_interval}$, $\gamma = {growth}$, $b = {backoff}$"


def arm_notes(arm: Arm) -> str:
    """Return whatever else an arm differs in."""
    notes = []
    if arm.perturb == "ulp":
        notes.append("weights moved by one ulp")
    if arm.inject:
        notes.append(f"infinite gradient at steps {listed(map(str, arm.inject.steps))}")
    if arm.fallback == "fp32":
        notes.append("FP32 where there is no other")
    if arm.workloads:
        notes.append(f"{listed(map(code, arm.workloads))} only")
    return ", ".join(notes)


def twin(measured: Measured) -> str:
    """Return what the one-ulp twin is for, or that the study has none."""
    reference = code(measured.reference)
    if not measured.twins:
        return (
            f"This study has no twin of {reference} that differs from it by rounding alone, so its differences are not "
            "held against a noise floor.\n"
        )
    return (
        f"One arm is no treatment at all. {code(measured.twins[0])} is {reference} with every initial weight moved by "
        "one unit in the last place, up or down at random. Training amplifies even a change of one bit in the initial "
        r"weights \citep{summers2021nondeterminism}, so two runs that differ by rounding must be expected to part. How "
        f"far this twin ends from {reference} is the noise floor of the study: a difference of that size between two "
        "precisions says nothing about precision.\n"
    )


def workloads(plan: Plan, described: set[str]) -> str:
    """Return a paragraph a workload: its model, its data, and how it is trained."""
    return "\n\n".join(workload_paragraph(workload, described) for workload in plan.study.workloads) + "\n"


def workload_paragraph(workload: Workload, described: set[str]) -> str:
    def describe(folder: str, name: str) -> str:
        return rf"\input{{{folder}/{name}}}" if f"{folder}/{name}" in described else code(name)

    def setting(key: str) -> str:
        return val(workload.name, key)

    optimizer, schedule = workload.optimizer, workload.schedule
    momentum = getattr(optimizer, "momentum", 0)
    sentences = [
        rf"\paragraph{{{escape(workload.name)}.}} The model is {describe('models', workload.model)}.",
        f"The data are {describe('data', workload.data)}.",
        f"A run takes {setting('steps')} steps of {setting('batch_size')} samples with {OPTIMIZERS[optimizer.name]}"
        + (f" and momentum {latex.setting(momentum)}." if momentum else "."),
    ]
    after = "annealed to zero on a cosine" if schedule.name == "cosine" else "held"
    if schedule.warmup_steps:
        warmup = f"reached over {setting('warmup_steps')} updates of linear warm-up and then {after}"
        sentences.append(f"The learning rate, {setting('lr')}, is {warmup}.")
    else:
        sentences.append(f"The learning rate is {setting('lr')}, {after} from the first step.")
    if workload.accumulate > 1:
        sentences.append(f"Each step sums the gradients of {setting('accumulate')} such micro-batches.")
    if workload.clip_norm is not None:
        sentences.append(f"The norm of the gradient is clipped at {setting('clip_norm')}.")
    return " ".join(sentences)


# Results


def abstract_findings(measured: Measured) -> str:
    """Return the abstract's sentences on what was found."""
    distinct = measured.runs.drop_duplicates("run_id")
    scaled = distinct[distinct["loss_scaling"] != "none"]
    sentences = []
    skipped, calibration = scaled["skipped"].sum(), scaled["skipped_calibration"].sum()
    if len(scaled):
        why = f", {percent(calibration / skipped)} of them in calibration" if skipped else ""
        sentences.append(
            f"Of all steps with a scaled loss, {percent(skipped / scaled['steps'].sum())} are skipped{why}."
        )
    judged = treatments(measured)
    judged = judged[judged["gap_n"] > 1]
    if len(judged):
        zero = int(contains_zero(judged).sum())
        sentences.append(
            f"The 95\\,\\% interval of the difference in final loss from FP32 contains zero in {zero} of {len(judged)} "
            "comparisons."
        )
    diverged = int((distinct["status"] == "diverged").sum())
    sentences.append(f"Of {len(distinct)} runs, {number_word(diverged)} {'diverges' if diverged == 1 else 'diverge'}.")
    return " ".join(sentences) + "%\n"


def completion(measured: Measured) -> str:
    """Return how many runs there are and what became of them."""
    plan, arms = measured.plan, measured.arms
    sizes = [(len(plan.study.workloads), "workload"), (len(plan.arms), "arm"), (len(plan.study.seeds), "seed")]
    text = rf"The study comprises \val{{study.runs}} runs of {listed(counted(*size) for size in sizes)}. "
    diverged = arms[arms["diverged"] > 0]
    if diverged.empty:
        text += "All of them ran to the end, and none diverged."
    else:
        cases = [
            f"{of_all(row.diverged, row.n)} of {code(row.arm)} on {code(row.workload)}" for row in diverged.itertuples()
        ]
        text += f"Some diverged: {listed(cases)}. The others ran to the end."
    fallen = arms.loc[arms["fell_back"], "arm"].unique()
    if len(fallen):
        text += f" The device does not have the precision of {codes(fallen)}, which ran in FP32 instead."
    return text + "\n"


def scale(workload: str, measured: Measured) -> str:
    """Return where the dynamic scales of a workload began and ended, in FP16 and elsewhere."""
    dynamic = measured.arms[(measured.arms["loss_scaling"] == "dynamic") & (measured.arms["completed"] > 0)]
    fp16 = dynamic["precision"] == "fp16"
    sentences = scale_in_fp16(workload, dynamic[fp16])
    for name in dynamic.loc[~fp16, "arm"]:
        sentences.append(
            f"Outside FP16 nothing hems the scale in: that of {code(name)} went {from_to(workload, name)}."
        )
    return " ".join(sentences)


def scale_in_fp16(workload: str, arms: pd.DataFrame) -> list[str]:
    if arms.empty:
        return ["No FP16 arm of this workload completed a run with a scale that moves."]
    bits = (arms["final_scale"] / arms["init_scale"]).map(math.log2).set_axis(arms["arm"])
    if len(arms) == 1:
        return [f"The scale of {code(bits.index[0])} went {from_to(workload, bits.index[0])} in its median run."]
    began, ended = spread(arms["init_scale"]), spread(arms["final_scale"])
    sentences = [
        f"The {number_word(len(arms))} dynamic FP16 arms began {began} and ended, in their median runs, {ended}."
    ]
    if bits.min() < 0:
        sentences.append(f"The scale of {code(bits.idxmin())} came down farthest, {from_to(workload, bits.idxmin())}.")
    if bits.max() > 0:
        sentences.append(f"The scale of {code(bits.idxmax())} rose most, {from_to(workload, bits.idxmax())}.")
    still = arms.loc[(arms["growths"] == 0) & (arms["backoffs"] == 0), "arm"]
    if len(still):
        sentences.append(f"The scale of {codes(still)} never moved.")
    return sentences


def skips(workload: str, measured: Measured) -> str:
    """Return how many steps of a workload were skipped, why, and at what rate once calibrated."""
    scaled = measured.arms[measured.arms["loss_scaling"] != "none"]
    sentences = [
        *skips_counted(scaled, measured.runs),
        *overflows_applied(workload, measured.arms),
        *equilibrium(measured),
    ]
    return " ".join(sentences)


def skips_counted(scaled: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    if scaled.empty:
        return ["No arm of this workload scales its loss, so no step can be skipped."]
    distinct = runs[runs["loss_scaling"] != "none"].drop_duplicates("run_id")
    steps, skipped = distinct["steps"].sum(), distinct["skipped"].sum()
    if not skipped:
        return [f"None of the ${steps}$ steps that were run with a scaled loss was skipped."]
    causes = [f"${distinct[f'skipped_{cause}'].sum()}$ {text}" for cause, text in CAUSE_TEXTS.items()]
    share = (scaled["skipped"] / scaled["steps"]).set_axis(scaled["arm"])
    spared = share.index[share == 0]
    most = f"The largest share, {percent(share.max())}, is that of {code(share.idxmax())}"
    none = f"; {codes(spared)} skipped none." if len(spared) else "."
    total = f"Of the ${steps}$ steps that were run with a scaled loss, ${skipped}$ were skipped"
    return [f"{total} ({percent(skipped / steps)}): {listed(causes)}.", most + none]


def overflows_applied(workload: str, arms: pd.DataFrame) -> list[str]:
    """Return what overflow did where no scaler could skip its step."""
    bare = arms[(arms["loss_scaling"] == "none") & (arms["overflows"] > 0)]
    return [
        f"{code(name)} has no scaler that could skip a step; it met an overflow in {val(workload, name, 'overflows')} of "
        f"{val(workload, name, 'steps')} steps and applied the update."
        for name in bare["arm"]
    ]


def equilibrium(measured: Measured) -> list[str]:
    """Hold the rate of skipped steps against the closed forms, for arms whose runs span enough growth intervals."""
    clauses = []
    runs = measured.runs
    dynamic = (runs["loss_scaling"] == "dynamic") & (runs["precision"] == "fp16") & (runs["status"] == "completed")
    for name, runs in runs[dynamic].groupby("arm", sort=False):
        interval = int(runs["growth_interval"].iloc[0])
        steps = runs["steps"] - runs["skipped_calibration"]
        if steps.min() < SETTLED * (interval + 1):
            continue
        rate = (runs["skipped"] - runs["skipped_calibration"]).sum() / steps.sum()
        factors = (float(runs[key].iloc[0]) for key in ("growth_factor", "backoff_factor"))
        mean_field, bound = equilibrium_rates(*factors, interval)
        clauses.append(
            f"{code(str(name))} ($N = {interval}$) skips {percent(rate)} of its steps, against "
            f"$p^{{*}} = {inner(latex.percent(mean_field))}\\,\\%$ and a bound of {percent(bound)}"
        )
    return [f"After calibration, {listed(clauses, '; ')}."] if clauses else []


def equilibrium_rates(growth_factor: float, backoff_factor: float, growth_interval: int) -> tuple[float, float]:
    """Return p* = 1 - (1 + 1/beta)^(-1/N) and the bound 1 / (1 + beta N), beta = ln(1/bf) / ln(gf) (METHOD 5.2)."""
    beta = -math.log(backoff_factor) / math.log(growth_factor)
    return 1 - (1 + 1 / beta) ** (-1 / growth_interval), 1 / (1 + beta * growth_interval)


def loss(workload: str, measured: Measured) -> str:
    """Return what loss the arms of a workload reached."""
    means = measured.arms.set_index("arm")["final_loss"].dropna()
    reference = measured.reference
    if reference not in means:
        return f"The reference {code(reference)} completed no run of this workload."
    text = f"{code(reference)} ends at a training loss of {val(workload, reference, 'final_loss')} nats"
    if measured.arms.set_index("arm")["final_excess"].notna()[reference]:
        text += (
            f", {val(workload, reference, 'final_excess')} above the loss of the source itself on the same samples. Over "
            f"all of its samples the source has a loss of {val(workload, 'floor')} nats, the floor in the figure."
        )
    else:
        text += "."
    others = means.drop(reference)
    if len(others) > 1:
        low, high = ((name, val(workload, name, "final_loss")) for name in (others.idxmin(), others.idxmax()))
        text += f" The means of the other arms lie between {low[1]} ({code(low[0])}) and {high[1]} ({code(high[0])})."
    return text


def gap(workload: str, measured: Measured) -> str:
    """Return how far the arms of a workload ended from the reference, and whether their intervals contain zero."""
    judged = measured.arms[measured.arms["gap_n"] > 1]
    sentences = [] if len(judged) else ["No arm has the two complete blocks that an interval takes."]
    twins = [name for name in measured.twins if name in set(judged["arm"])]
    for name in twins[:1]:
        sentences.append(f"The mean gap of the twin {code(name)} is {interval(workload, name)}.")
    treated = judged[~judged["arm"].isin(measured.twins)]
    zero = contains_zero(treated)
    inside, outside = treated.loc[zero, "arm"], treated.loc[~zero, "arm"]
    if len(inside):
        sentences.append(f"The interval contains zero for {codes(inside)}.")
    if len(outside):
        excludes = f"{'It' if len(inside) else 'The interval'} excludes zero for"
        sentences.append(f"{excludes} {apart(workload, treated[~zero])}.")
    elif len(inside):
        sentences.append("It excludes zero for no arm.")
    if twins and len(treated):
        sentences.append(beyond_twin(measured.gaps, twins[0], treated))
    lacking = treatments(measured).query("gap_n < 2 and n > 1")["arm"]
    if len(judged) and len(lacking):
        sentences.append(f"Too few blocks of {codes(lacking)} are complete for an interval.")
    return " ".join([*sentences, *same_loss(measured), *scaling_without_effect(measured)])


def apart(workload: str, arms: pd.DataFrame) -> str:
    """Return the arms whose interval excludes zero: up to three with their gaps, of more only the one farthest away."""
    if len(arms) <= 3:
        return listed((f"{code(name)}, whose mean gap is {interval(workload, name)}" for name in arms["arm"]), "; ")
    farthest = arms.loc[arms["gap"].abs().idxmax(), "arm"]
    return f"{codes(arms['arm'])}, of which {code(farthest)} lies farthest out, at {interval(workload, farthest)}"


def beyond_twin(gaps: pd.DataFrame, twin: str, treated: pd.DataFrame) -> str:
    """Compare each arm's mean gap with the largest gap that the twin shows in any block."""
    largest = gaps.loc[gaps["arm"] == twin, "gap"].abs().max()
    beyond = treated.loc[treated["gap"].abs() > largest, "arm"]
    if beyond.empty:
        return "No arm's mean gap is larger in magnitude than the largest that the twin shows in a single block."
    others = len(beyond) < len(treated)
    which = codes(beyond) if others else "every arm"
    rest = "; that of every other arm is not" if others else ""
    return f"In magnitude, the mean gap of {which} is larger than any that the twin shows in a single block{rest}."


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
        alike = (other.precision, other.perturb, other.inject) == (arm.precision, arm.perturb, arm.inject)
        if alike and other.effective_loss_scaling.kind == "none":
            return other.name
    return None


# Parts of sentences


def treatments(measured: Measured) -> pd.DataFrame:
    """Return the rows of the arms that are neither the reference nor its twin."""
    return measured.arms[~measured.arms["arm"].isin([measured.reference, *measured.twins])]


def contains_zero(arms: pd.DataFrame) -> pd.Series:
    return (arms["gap_low"] <= 0) & (arms["gap_high"] >= 0)


def final_losses(measured: Measured, names: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Return the final loss of each arm that has runs, by block in the order of the seeds."""
    losses = {name: measured.runs.loc[measured.runs["arm"] == name, "final_loss"] for name in names}
    return {name: tuple(values) for name, values in losses.items() if len(values)}


def interval(workload: str, arm: str) -> str:
    gap, low, high = (val(workload, arm, key) for key in ("gap", "gap_low", "gap_high"))
    return f"{gap} nats (95\\,\\% interval {low} to {high})"


def from_to(workload: str, arm: str) -> str:
    return f"from {val(workload, arm, 'init_scale')} to {val(workload, arm, 'final_scale')}"


def spread(scales: pd.Series) -> str:
    low, high = latex.scale(scales.min()), latex.scale(scales.max())
    return f"at {low}" if low == high else f"between {low} and {high}"


def percent(share: float) -> str:
    return f"{latex.percent(share)}\\,\\%"


def inner(math_text: str) -> str:
    """Return a number in math mode without its dollars, for use within a formula."""
    return math_text.strip("$")


def val(*parts: str) -> str:
    return rf"\val{{{'.'.join(parts)}}}"


def code(name: str) -> str:
    return rf"\code{{{escape(name)}}}"


def breakable_code(name: str) -> str:
    return rf"\code{{{latex.breakable(name)}}}"


def codes(names: Iterable[str]) -> str:
    return listed(map(code, names))


def listed(items: Iterable[str], separator: str = ", ") -> str:
    """Return `a`, `a and b` or `a, b and c`; with a semicolon, `a; b; and c`."""
    items = list(items)
    if len(items) < 2:
        return "".join(items)
    last = " and " if separator == ", " else f"{separator}and "
    return separator.join(items[:-1]) + last + items[-1]


def number_word(count: int) -> str:
    return WORDS[count] if count < len(WORDS) else str(count)


def counted(count: int, noun: str) -> str:
    return f"{number_word(count)} {noun}" + ("" if count == 1 else "s")


def of_all(count: int, total: int) -> str:
    """Return `two of the three runs`, or `all three runs`."""
    if count == total:
        return "the one run" if total == 1 else f"all {number_word(total)} runs"
    return f"{number_word(count)} of the {number_word(total)} runs"
