"""The sentences of the paper that depend on the study: the numbers decide which of them are true.

Each function returns LaTeX. A number that belongs to one arm stands as a \\val key of macros.tex; what is counted or
compared over several arms is counted here. No sentence names a model, an arm or a workload that the study lacks.
"""

from collections.abc import Callable, Iterable

from halfscale.analysis.latex import breakable
from halfscale.analysis.prose.claims import abstract_claims, claim_rules, claims, conclusion_claims
from halfscale.analysis.prose.equilibrium import equilibrium
from halfscale.analysis.prose.equivalence import equivalence
from halfscale.analysis.prose.losses import gap, loss
from halfscale.analysis.prose.measured import Measured
from halfscale.analysis.prose.memory import memory
from halfscale.analysis.prose.method import arms_defined, definitions, twin, workloads
from halfscale.analysis.prose.outcome import abstract_findings, completion
from halfscale.analysis.prose.output_dtypes import output_dtypes
from halfscale.analysis.prose.practice import practice
from halfscale.analysis.prose.practices import practices
from halfscale.analysis.prose.probe import probe
from halfscale.analysis.prose.published import published
from halfscale.analysis.prose.roofline import roofline
from halfscale.analysis.prose.samples import samples
from halfscale.analysis.prose.scaling import scale, skips
from halfscale.analysis.prose.sensitivity import sensitivity
from halfscale.analysis.prose.survival import survival
from halfscale.analysis.prose.throughput import throughput

__all__ = ["Measured", "write_prose"]

NOTHING = "% The study has nothing of this kind.\n"

BEFORE_RESULTS = ("output_dtypes",)
"""Experiments that say what the treatments are; the others come after the results."""


def write_prose(measured: Measured, described: Iterable[str]) -> dict[str, str]:
    """Return every generated part of the paper by file name.

    Args:
        measured: the study.
        described: the model and data descriptions that the paper's sources hold, such as "models/resnet50".
    """
    once = measured.without_repeats()
    return {
        "definitions": definitions(measured),
        "abstract_findings": abstract_findings(once),
        "abstract_claims": abstract_claims(measured.claims),
        "claims": claims(measured.claims),
        "claim_rules": claim_rules(measured.claims, measured.plan.study.experiments.claims),
        "conclusion_claims": conclusion_claims(measured.claims),
        "practice": practice(measured.claims),
        "arms_defined": arms_defined(measured.plan),
        "twin": twin(measured),
        "workloads": workloads(measured.plan, set(described)),
        "completion": completion(measured),
        "scale": by_workload(once, scale),
        "skips": by_workload(once, skips),
        "equilibrium": equilibrium(once),
        "loss": by_workload(once, loss),
        "gap": by_workload(once, gap),
        "survival": by_workload(once, survival),
        "samples": samples(measured),
        **comparisons(measured),
        **({} if measured.published is None else {"published": published(measured.published, measured.variants)}),
        **experiments(measured),
    }


def comparisons(measured: Measured) -> dict[str, str]:
    """Return the text of what the study concludes from its runs, and the commands that read their sections and tables."""
    texts = {}
    settings = measured.plan.study.experiments.equivalence
    if measured.equivalence is not None and settings is not None:
        once = measured.once(measured.equivalence)
        texts["equivalence"] = equivalence(once, settings.alpha)
    if measured.sensitivity is not None:
        texts["sensitivity"] = sensitivity(measured.sensitivity)
    return texts | {"comparisons": inputs("sections", texts), "comparison_tables": inputs("tables", texts)}


def experiments(measured: Measured) -> dict[str, str]:
    """Return the text of each experiment that the study has, and the commands that read their sections and tables."""
    texts = {}
    if measured.dtypes is not None:
        texts["output_dtypes"] = output_dtypes(measured.dtypes)
    if measured.probes is not None:
        texts["probe"] = probe(*measured.probes)
    if measured.variants is not None:
        texts["throughput"] = throughput(measured.variants)
    if measured.roofline is not None:
        texts["roofline"] = roofline(measured.roofline)
    if measured.memory is not None:
        texts["memory"] = memory(*measured.memory)
    if measured.practices is not None:
        # The runs of a device with FP16 units compute FP16 with them, unless the study says otherwise.
        has_units = not measured.runs["backend"].eq("upcast").any()
        texts["practices"] = practices(measured.practices, None if has_units else measured.variants)
    return texts | {
        "treatments": inputs("sections", (name for name in texts if name in BEFORE_RESULTS)),
        "experiments": inputs("sections", (name for name in texts if name not in BEFORE_RESULTS)),
        "experiment_tables": inputs("tables", texts),
    }


def inputs(folder: str, names: Iterable[str]) -> str:
    """Return the commands that read these files of a folder."""
    return "".join(f"\\input{{{folder}/{name}}}\n" for name in names) or NOTHING


def by_workload(measured: Measured, write: Callable[[str, Measured], str]) -> str:
    """Return one paragraph a workload, headed by its name."""
    names = [workload.name for workload in measured.plan.study.workloads]
    return "\n\n".join(rf"\paragraph{{{breakable(name)}.}} {write(name, measured.of(name))}" for name in names) + "\n"
