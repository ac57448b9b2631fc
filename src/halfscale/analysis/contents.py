"""What a finished study holds: its tables."""

from collections.abc import Callable

from halfscale.analysis.rates import has_sweep
from halfscale.study.runs import Roster

OF_RUNS = ("runs", "arms", "gaps", "samples", "exponents", "survival")
"""Tables of the training runs, which every study has."""

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
"""Tables that a study has or has not, and what says so; the first of each is the main one."""


def main_tables_of(plan: Roster) -> list[str]:
    """Return the main table of each of the others that a study has."""
    return [names[0] for names, has in OTHERS.items() if has(plan)]


def tables_of(plan: Roster) -> list[str]:
    """Return the names of the tables that a study ends with."""
    return [*OF_RUNS, *(name for names, has in OTHERS.items() if has(plan) for name in names)]


def tables_lacking(plan: Roster) -> list[str]:
    """Return the names of the tables that a study does not have."""
    return [name for names, has in OTHERS.items() if not has(plan) for name in names]
