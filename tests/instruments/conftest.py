"""Specs of runs that take milliseconds, and models and data whose gradients are known by heart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from halfscale.study.load import parse_study
from halfscale.study.runs import plan_study
from halfscale.study.spec import RunSpec

torch.set_num_threads(1)

MakeSpec = Callable[..., RunSpec]


@pytest.fixture(autouse=True)
def tiny_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let specs name the models and data of tiny_workloads.py."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def make_spec() -> MakeSpec:
    """A function from a workload's and an arm's settings to the spec of one run; a tiny classifier by default.

    A pitfall is no setting that an arm of a study may have, and is added to the spec.
    """

    def make(
        workload: dict[str, Any] | None = None,
        seed: int = 0,
        backend: str = "auto",
        pitfall: str | None = None,
        **arm: Any,
    ) -> RunSpec:
        settings = {
            "name": "tiny",
            "model": "tiny_workloads:classifier",
            "data": "tiny_workloads:clouds",
            "batch_size": 8,
            "steps": 20,
            "optimizer": {"name": "sgd", "lr": 0.1},
            **(workload or {}),
        }
        arms = [{"name": "fp32", "precision": "fp32"}, {"name": "tested", "precision": "fp32", **arm}]
        study = {"study": "tiny", "seeds": [seed], "backend": backend, "workloads": [settings], "arms": arms}
        plan = plan_study(parse_study(study, "test"))
        spec = next(plan.runs[member.run_id] for member in plan.members if member.arm == "tested")
        return spec.model_copy(update={"pitfall": pitfall})

    return make
