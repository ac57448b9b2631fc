"""Arms that differ in nothing but their learning rate. Light: the Snakefile asks it whether a study has a sweep of rates."""

from collections.abc import Sequence

from halfscale.study.arm import Arm
from halfscale.study.runs import Roster

FEWEST_RATES = 3
"""Of the reference, for its rates to be a sweep."""


def families(arms: Sequence[Arm]) -> list[dict[float, str]]:
    """Return the names of the arms by lr_factor, a mapping for each group of arms that are the same but for it.

    Groups stand in the order of their first arms. Of arms that are the same at the same rate the first stands for all.
    """
    found: dict[str, dict[float, str]] = {}
    for arm in arms:
        treatment = arm.model_copy(update={"loss_scaling": arm.effective_loss_scaling})
        key = treatment.model_dump_json(exclude={"name", "lr_factor", "fallback", "workloads"})
        found.setdefault(key, {}).setdefault(arm.lr_factor, arm.name)
    return list(found.values())


def swept(plan: Roster, workload: str) -> list[dict[float, str]]:
    """Return the families of a workload that are trained at every rate of the reference's, the reference's first.

    None where the reference is not trained at FEWEST_RATES rates at least.

    Args:
        plan: of the study.
        workload: its name.
    """
    here = [arm for arm in plan.arms if arm.workloads is None or workload in arm.workloads]
    groups = families(here)
    base = next(group for group in groups if plan.study.reference in group.values())
    if len(base) < FEWEST_RATES:
        return []
    others = [group for group in groups if group is not base and base.keys() <= group.keys()]
    return [{rate: group[rate] for rate in sorted(base)} for group in [base, *others]]


def has_sweep(plan: Roster) -> bool:
    """Return whether any workload of a study is trained at several learning rates."""
    return any(swept(plan, workload.name) for workload in plan.study.workloads)
