"""The record of output dtypes: what every forward pass that was looked at gave, module by module."""

from typing import Literal

from halfscale.study.model import Count, Model
from halfscale.study.output_dtypes import OutputDtypesSpec
from halfscale.study.records import Environment
from halfscale.study.sealed import Sealed
from halfscale.study.step import Predicted

How = Literal["measured", "predicted", "unavailable"]
"""predicted: by fake tensors, which have dtypes and no contents. unavailable: by neither; `why` says why."""


class Output(Model):
    """What one call of a module, or of a function that no module without children calls, gave."""

    module: str
    """As the model names it: the module itself, or the one in whose forward the function is called; empty for the model."""
    kind: str
    """The module's class, such as LayerNorm, or the function, such as scaled_dot_product_attention."""
    function: bool
    call: Count
    """Which call of this kind in this module, from 1: a shared module is called more than once."""
    dtypes: list[str]
    """Of the tensors in its output, each once, such as float16; empty where it gives none."""


class Pass(Model):
    """One forward and backward pass on one device in one precision."""

    device: Literal["cpu", "cuda"]
    precision: Predicted
    how: How
    why: str
    """Why it, or its backward pass, is not to be had; empty where it is."""
    outputs: list[Output]
    """In forward order."""
    never_called: list[str]
    """Modules without children that the forward pass does not call."""
    gradients: dict[str, int]
    """Parameters by the dtype of their gradient; `none` for those that train and get none."""


class Ruling(Model):
    """What autocast makes of one operation whose operands are in its own 16-bit dtype already."""

    operation: str
    device: Literal["cpu", "cuda"]
    precision: Predicted
    how: How
    dtype: str | None
    """Of its result; None where this device has no such kernel."""


class OutputDtypesRecord(Sealed):
    """What the output dtypes instrument found of one workload."""

    spec: OutputDtypesSpec
    passes: list[Pass]
    rulings: list[Ruling]
    environment: Environment
    """Of what was measured."""
    code: str
    """Hash of the package sources that the record depends on."""
    seconds: float
