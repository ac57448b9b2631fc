"""The output dtypes experiment: what autocast makes of the outputs of a model, on a CPU and on CUDA. Config and spec."""

from typing import Annotated, Any, Literal

from pydantic import Field

from halfscale.study.identity import Spec
from halfscale.study.model import Count, Model, Name
from halfscale.study.workload import Workload

SAMPLES = 2
"""In the one batch that is looked at: enough for BatchNorm, and no dtype depends on their number."""


class OutputDtypes(Model):
    """Whose outputs are looked at."""

    workloads: Annotated[list[Name], Field(min_length=1)] | None = None
    """The workloads that are looked at; all of them when left out."""


class OutputDtypesSpec(Spec):
    """One workload. The interface of the output dtypes instrument."""

    spec: Literal["halfscale-output-dtypes-v1"] = "halfscale-output-dtypes-v1"
    model: str
    model_args: dict[str, Any]
    data: str
    data_args: dict[str, Any]
    memory_format: Literal["contiguous", "channels_last"]
    batch_size: Count
    seed: int
    device: Literal["auto", "cpu", "cuda"]
    """Where it is CUDA, CUDA's dtypes are measured and not predicted; the CPU's are always measured."""
    backend: Literal["auto", "native", "upcast"]


def output_dtypes_spec(
    workload: Workload,
    seed: int,
    device: Literal["auto", "cpu", "cuda"],
    backend: Literal["auto", "native", "upcast"],
) -> OutputDtypesSpec:
    """Return the spec that looks at one workload."""
    names = ("model", "model_args", "data", "data_args", "memory_format")
    shared = {name: getattr(workload, name) for name in names}
    return OutputDtypesSpec(batch_size=SAMPLES, seed=seed, device=device, backend=backend, **shared)
