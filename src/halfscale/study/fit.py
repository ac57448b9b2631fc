"""Whether an arm fits the workload that it is for."""

import math

from halfscale.study.arm import Arm
from halfscale.study.workload import Workload


def check_fit(arm: Arm, workload: Workload) -> None:
    """Check that an arm can be run on a workload.

    Args:
        arm: whether it names the workload does not matter.
        workload: what it is run on.

    Raises:
        ValueError: the arm's learning rate, its fault plan or its pitfall does not fit.
    """
    lr = workload.optimizer.lr * arm.lr_factor
    if not 0 < lr < math.inf:
        raise ValueError(
            f"arms[{arm.name}].lr_factor = {arm.lr_factor}: makes the learning rate of workload "
            f"{workload.name!r} {lr}; allowed: what leaves it finite and above 0"
        )
    if arm.inject and arm.inject.steps[-1] >= workload.steps:
        raise ValueError(
            f"arms[{arm.name}].inject.steps: {arm.inject.steps[-1]} is past the end of workload "
            f"{workload.name!r}; allowed: 0 to {workload.steps - 1}"
        )
    if arm.pitfall == "clip_before_unscale" and workload.clip_norm is None:
        raise ValueError(
            f"arms[{arm.name}].pitfall = {arm.pitfall!r}: workload {workload.name!r} does not clip; "
            "allowed: with a clip_norm"
        )
