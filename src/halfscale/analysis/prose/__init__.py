"""The sentences of the paper that depend on the study: the numbers decide which of them are true.

Each function returns LaTeX. A number that belongs to one arm stands as a \\val key of macros.tex; what is counted or
compared over several arms is counted here. No sentence names a model, an arm or a workload that the study lacks.
"""

from collections.abc import Callable, Iterable

from halfscale.analysis.latex import breakable
from halfscale.analysis.prose.equilibrium import equilibrium
from halfscale.analysis.prose.losses import gap, loss
from halfscale.analysis.prose.measured import Measured
from halfscale.analysis.prose.method import arms_defined, definitions, twin, workloads
from halfscale.analysis.prose.outcome import abstract_findings, completion
from halfscale.analysis.prose.scaling import scale, skips
from halfscale.analysis.prose.throughput import throughput

__all__ = ["Measured", "write_prose"]


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
        "arms_defined": arms_defined(measured.plan),
        "twin": twin(measured),
        "workloads": workloads(measured.plan, set(described)),
        "completion": completion(measured),
        "scale": by_workload(once, scale),
        "skips": by_workload(once, skips),
        "equilibrium": equilibrium(once),
        "loss": by_workload(once, loss),
        "gap": by_workload(once, gap),
        "experiments": experiments(measured),
        **({} if measured.variants is None else {"throughput": throughput(measured.variants)}),
    }


def experiments(measured: Measured) -> str:
    """Return the commands that read the sections of what the study measures beside its runs."""
    nothing = "% Nothing is measured beside the training runs.\n"
    return nothing if measured.variants is None else "\\input{sections/throughput}\n"


def by_workload(measured: Measured, write: Callable[[str, Measured], str]) -> str:
    """Return one paragraph a workload, headed by its name."""
    names = [workload.name for workload in measured.plan.study.workloads]
    return "\n\n".join(rf"\paragraph{{{breakable(name)}.}} {write(name, measured.of(name))}" for name in names) + "\n"
