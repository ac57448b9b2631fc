"""Which tables a study ends with: the one place where they are listed, for the workflow and for what reads them all."""

from collections.abc import Callable

from halfscale.analysis.rates import has_sweep
from halfscale.study.runs import Roster

ALWAYS = ("runs", "arms", "gaps", "samples", "exponents", "survival", "published", "claims")
"""Tables that every study has: those of the training runs, what others published, and what becomes of the claims."""

OTHERS: dict[tuple[str, ...], Callable[[Roster], object]] = {
    ("equivalence",): lambda plan: plan.study.experiments.equivalence,
    ("sensitivity", "sensitivity_runs"): has_sweep,
    ("output_dtypes", "output_dtypes_passes", "autocast_operations"): lambda plan: plan.output_dtypes,
    ("probe", "probe_scales", "probe_layers", "predicted_skips", "predicted_flushed"): lambda plan: plan.probe,
    ("throughput", "throughput_blocks"): lambda plan: plan.throughput,
    ("memory", "largest_batch"): lambda plan: plan.memory,
    ("roofline",): lambda plan: plan.roofline,
    ("practices", "practices_runs"): lambda plan: plan.practices,
}
"""The other tables, those of one thing together and its main one first, with what says whether a study has them."""


def tables_of(plan: Roster) -> list[str]:
    """Return the names of the tables that a study ends with."""
    return [*ALWAYS, *(name for names, has in OTHERS.items() if has(plan) for name in names)]


def main_tables(plan: Roster) -> list[str]:
    """Return the name of the main table of each thing that a study does beside its runs."""
    return [names[0] for names, has in OTHERS.items() if has(plan)]


def tables_lacking(plan: Roster) -> list[str]:
    """Return the names of the tables of what a study does not do."""
    return [name for names, has in OTHERS.items() if not has(plan) for name in names]
