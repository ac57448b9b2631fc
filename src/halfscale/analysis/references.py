"""Which arm each arm's loss is held against: the study's reference, at the arm's own learning rate.

Against the reference at another learning rate, a gap would be the learning rate's and not the precision's.
"""

from collections.abc import Sequence

from halfscale.study.arm import Arm


def references(arms: Sequence[Arm], reference: str) -> dict[str, str]:
    """Return, by the name of each arm, the name of the arm that it is compared with.

    That is the reference; for an arm with another lr_factor, the first arm with the reference's settings and this
    lr_factor that has every workload the arm has; and the reference again where there is none. An arm that is
    compared with itself has no gap.

    Args:
        arms: all arms of the plan.
        reference: the name of the study's reference.
    """
    base = next(arm for arm in arms if arm.name == reference)
    at_rate: dict[float, list[Arm]] = {}
    for arm in arms:
        if arm.lr_factor != base.lr_factor and same_settings(arm, base):
            at_rate.setdefault(arm.lr_factor, []).append(arm)
    return {
        arm.name: next((other.name for other in at_rate.get(arm.lr_factor, []) if covers(other, arm)), reference)
        for arm in arms
    }


def same_settings(arm: Arm, other: Arm) -> bool:
    """Return whether two arms are the same but for learning rate, fallback, name and workloads."""

    def settings(arm: Arm) -> tuple[object, ...]:
        return arm.precision, arm.effective_loss_scaling, arm.perturb, arm.inject, arm.fp32_modules, arm.layer_scales

    return settings(arm) == settings(other)


def covers(arm: Arm, other: Arm) -> bool:
    """Return whether an arm runs on every workload that another runs on."""
    return arm.workloads is None or (other.workloads is not None and set(other.workloads) <= set(arm.workloads))
