"""What was done: the arms, their twin, the workloads."""

from collections.abc import Mapping, Sequence
from typing import Any

from halfscale.analysis import latex
from halfscale.analysis.prose.equivalence import seeds_reach
from halfscale.analysis.prose.measured import Measured
from halfscale.analysis.prose.words import code, inner, listed, ranged, val
from halfscale.analysis.shown import Shown
from halfscale.analysis.tables import MOST_ROWS
from halfscale.study.arm import Arm
from halfscale.study.runs import Roster
from halfscale.study.workload import Workload

MODELS = {"resnet50": "ResNet-50", "transformer": "a small transformer"}
"""Models as the abstract calls them; others go by their names in the config."""

PARAGRAPH = r">{\raggedright\arraybackslash}p{%s}"

SETTINGS = {
    "vocabulary": "a vocabulary of {} tokens",
    "context": "a context of {} tokens",
    "width": "a width of {}",
    "depth": "a depth of {}",
    "heads": "a head count of {}",
    "dropout": "a dropout rate of {}",
    "order": "an order of {}",
    "num_classes": "{} classes",
    "image_size": "a side of {} pixels",
}
"""Settings of models and data in words; others go by their names in the config."""

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
STOCK_INTERVAL = 2000
"""PyTorch's default growth interval, in steps."""
DEFAULT_STUDY = "quickstart"
"""The study that `make study` runs."""

OPTIMIZERS = {"sgd": "SGD", "adamw": r"AdamW \citep{loshchilov2019decoupled}"}


def definitions(measured: Measured) -> str:
    """Return commands and conditionals for what the fixed sections say about this study."""
    plan = measured.plan
    models = dict.fromkeys(MODELS.get(workload.model, code(workload.model)) for workload in plan.study.workloads)
    threads, fewest, seeds = plan.study.threads, *blocks(plan)
    precisions = [name for name in PRECISIONS if name in {arm.precision for arm in plan.arms}]
    commands = {
        "studymodels": listed(models),
        "studyprecisions": listed(name.upper() for name in precisions),
        "studyscaling": scaling_varied(plan.arms),
        "studythreads": "one CPU thread each" if threads == 1 else f"{threads} CPU threads each",
        "studyblocks": ranged(fewest, seeds, "block"),
        "studyfreedom": ranged(fewest - 1, seeds - 1, "degree") + " of freedom",
        "longestrun": str(max(workload.steps for workload in plan.study.workloads)),
    }
    equivalence = plan.study.experiments.equivalence
    if equivalence is not None and fewest > 1:
        commands["studyreach"] = seeds_reach(fewest, seeds, equivalence.alpha)
    dynamic = [arm.effective_loss_scaling for arm in plan.arms]
    conditions = {
        "studytwin": bool(measured.twins),
        "studyintervals": fewest > 1,
        "studyshortinterval": any(each.kind == "dynamic" and each.growth_interval < STOCK_INTERVAL for each in dynamic),
        "studyequivalence": equivalence is not None,
        "studyunstable": bool(measured.runs["instability"].notna().any()),
        "studysweep": measured.sensitivity is not None,
        "studyonerate": len({arm.lr_factor for arm in plan.arms}) == 1,
        "studycut": len(plan.arms) * seeds > MOST_ROWS,
        "studydtypes": bool(plan.output_dtypes),
        "studyprobe": bool(plan.probe),
        "studythroughput": bool(plan.throughput),
        "studyspeedup": measured.variants is not None and bool(measured.variants["speedup"].notna().any()),
        "studyroofline": bool(plan.roofline),
        "studymemory": bool(plan.memory),
        "studypractices": bool(plan.practices),
        "studydefault": plan.study.study == DEFAULT_STUDY,
    }
    return "".join(
        [
            *(f"\\newcommand{{\\{name}}}{{{text}}}\n" for name, text in commands.items()),
            *(f"\\newif\\if{name}\\{name}{str(holds).lower()}\n" for name, holds in conditions.items()),
        ]
    )


def blocks(plan: Roster) -> tuple[int, int]:
    """Return how many blocks the comparisons rest on, of a workload with the fewest and of one with the most."""
    arms: dict[str, set[str]] = {}
    for member in plan.members:
        arms.setdefault(member.workload, set()).add(member.arm)
    seeds = [
        len(plan.study.seeds_of(workload)) for workload in plan.study.workloads if len(arms[workload.name]) > 1
    ] or [len(plan.study.seeds)]
    return min(seeds), max(seeds)


def scaling_varied(arms: Sequence[Arm]) -> str:
    """Return with what loss scaling the arms are trained, as it follows on `we train a model in FP16 `."""
    kinds = {arm.effective_loss_scaling for arm in arms if arm.precision == "fp16"}
    kinds |= {arm.effective_loss_scaling for arm in arms if arm.effective_loss_scaling.kind != "none"}
    if all(kind.kind == "none" for kind in kinds):
        return "without loss scaling"
    return "with one setting of loss scaling" if len(kinds) == 1 else "under a range of loss-scaling settings"


def arms_defined(plan: Roster) -> str:
    """Return a table of the arms by precision: what each of them is."""
    columns = [
        latex.Column("Arm", "", PARAGRAPH % "3.6cm"),
        latex.Column("Loss scaling", r"(initial scale, interval in steps, growth, backoff)", PARAGRAPH % "7.4cm"),
        latex.Column("Otherwise", "", PARAGRAPH % "4.4cm"),
    ]
    shown = Shown.choose({"the study": [arm.name for arm in plan.arms]}, MOST_ROWS, plan.arms, ())
    kept = [arm for arm in plan.arms if arm.name in shown.arms["the study"]]
    caption = f"The arms, by precision. {latex.escape(shown.sentence())}".strip()
    groups = []
    for precision in dict.fromkeys(arm.precision for arm in kept):
        arms = [arm for arm in kept if arm.precision == precision]
        rows = [[code(arm.name), scaling_text(arm), arm_notes(arm)] for arm in arms]
        groups.append((precision.upper(), rows))
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
    if arm.lr_factor != 1:
        notes.append(rf"learning rate $\times$ {latex.setting(arm.lr_factor)}")
    if arm.perturb == "ulp":
        notes.append("weights moved by one ulp")
    if not arm.reduced_precision_reduction:
        notes.append("products summed in FP32")
    if arm.inject:
        what = {"inf_gradient": "infinite gradient", "large_input": "input of $2^{17}$"}[arm.inject.kind]
        notes.append(f"{what} at steps {listed(map(str, arm.inject.steps))}")
    if arm.fp32_modules:
        notes.append(f"FP32 in {listed(map(code, arm.fp32_modules))}")
    if arm.layer_scales:
        scales = (f"{latex.scale(scale)} in {code(module)}" for module, scale in arm.layer_scales.items())
        notes.append(f"gradient scaled by {listed(scales)}")
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
        "one unit in the last place, up or down at random. Training can amplify a change as small as one bit of one weight "
        r"\citep{summers2021nondeterminism}, so two runs that differ by rounding alone may part. How "
        f"far this twin ends from {reference} is the noise floor of runs of this length: a difference of that size "
        "between two precisions says nothing about precision.\n"
    )


def workloads(plan: Roster, described: set[str]) -> str:
    """Return a paragraph a workload: its model, its data, and how it is trained."""
    return "\n\n".join(workload_paragraph(workload, described) for workload in plan.study.workloads) + "\n"


def workload_paragraph(workload: Workload, described: set[str]) -> str:
    def describe(folder: str, name: str) -> str:
        return rf"\input{{{folder}/{name}}}" if f"{folder}/{name}" in described else code(name)

    def setting(key: str) -> str:
        return val(workload.name, key)

    # The model's vocabulary and context are the data's as well, and are told once.
    told = workload.model_args.items()
    data_args = {key: value for key, value in workload.data_args.items() if (key, value) not in told}
    optimizer, schedule = workload.optimizer, workload.schedule
    momentum = getattr(optimizer, "momentum", 0)
    sentences = [
        rf"\paragraph{{{latex.breakable(workload.name)}.}} The model is {describe('models', workload.model)}.",
        *settings_listed("It has", workload.model_args),
        f"The data are {describe('data', workload.data)}.",
        *settings_listed("They have", data_args),
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


def settings_listed(start: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the settings of a model or of data, none where it has none."""
    items = [
        SETTINGS[key].format(setting_text(value)) if key in SETTINGS else f"{code(key)} = {setting_text(value)}"
        for key, value in arguments.items()
    ]
    return [f"{start} {listed(items)}."] if items else []


def setting_text(value: Any) -> str:
    """Return a setting's value as LaTeX."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return latex.setting(value)
    return code(str(value).lower() if isinstance(value, bool) else str(value))
