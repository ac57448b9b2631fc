"""Whether scales of single modules leave a model's gradients as they are: asked in FP32, before a run's first step."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from halfscale.instruments.describe import describe_effective
from halfscale.instruments.forward import forward
from halfscale.instruments.modules import check_called, treat_modules
from halfscale.instruments.norms import norms_of, total_norm
from halfscale.instruments.setup import TrainingError
from halfscale.numerics.loss_scaling import make_scaler
from halfscale.numerics.precision import DeviceType
from halfscale.study.arm import NoLossScaling
from halfscale.study.spec import RunSpec
from halfscale.workloads.batch import Data

TOLERANCE = 1e-4
"""Of a gradient's own norm. Powers of two leave its bits alone but for the order of sums; a scale that is not undone
changes what it touches by half at the least."""
ROUNDING = 1e-6
"""Of the norm of all gradients, for one that is exactly zero and consists of rounding: a bias ahead of BatchNorm."""


def check_layer_scales(spec: RunSpec, model: nn.Module, data: Data, device: DeviceType) -> None:
    """Check on the first batch, in FP32, that a spec's layer_scales change no gradient.

    They do where what passes a module's boundary is not seen to: its weight is used by its parent too, or its output is
    an object that holds tensors, or an input is an attribute, or is changed in place and used again by its parent. All
    is done on copies of the model: it stays as it is, and so do its buffers and the random numbers that follow.

    Args:
        spec: what is to run.
        model: on its device, as it was built, without treated modules.
        data: whose first batch is taken.
        device: where TF32 must be off.

    Raises:
        TrainingError: a gradient changes, or the model cannot be copied; else as treat_modules, forward and check_called.
    """
    scaled = fp32_gradients(spec, model, data, device, spec.layer_scales)
    plain = fp32_gradients(spec, model, data, device, {})
    found = first_changed(plain, scaled)
    if found is None:
        return
    parameter, norm, change = found
    # Each alone, to name those that are at fault.
    faulty = [
        name
        for name, scale in spec.layer_scales.items()
        if first_changed(plain, fp32_gradients(spec, model, data, device, {name: scale}))
    ]
    modules = ", ".join(repr(name) for name in faulty or spec.layer_scales)
    raise TrainingError(
        f"layer_scales: the scale of {modules} changes the gradient of {parameter} in FP32 by {change:.2g}, where its "
        f"norm is {norm:.2g} and none may change; allowed: a module that alone uses its parameters, and whose inputs and "
        "outputs are its forward pass's arguments and result: tensors, or tuples, lists and dictionaries of them"
    )


def fp32_gradients(
    spec: RunSpec, model: nn.Module, data: Data, device: DeviceType, scales: Mapping[str, float]
) -> dict[str, Tensor]:
    """Return a model's gradients on the first batch by name, with some modules scaled; zeros where there are none.

    Raises:
        TrainingError: the model cannot be copied; else as treat_modules, forward and check_called.
    """
    copied = copy_of(model)
    treat_modules(copied, [], scales, device)
    scaler = make_scaler(NoLossScaling(kind="none"), device)
    effective = describe_effective(device, "fp32", "fp32", "native", scaler, data.fingerprint)
    with torch.random.fork_rng([torch.cuda.current_device()] if device == "cuda" else []):
        torch.manual_seed(spec.seed)  # so that dropout drops the same each time
        loss, _ = forward(copied.train(), data.batch(0, spec.batch_size), effective, spec.memory_format)
        loss.backward()
    check_called(copied, [], scales)
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in copied.named_parameters()
        if parameter.requires_grad
    }


def copy_of(model: nn.Module) -> nn.Module:
    """Return a copy of a model that shares nothing with it.

    Raises:
        TrainingError: it cannot be copied.
    """
    try:
        return copy.deepcopy(model)
    except Exception as error:  # whatever a model's parts raise
        raise TrainingError(
            "layer_scales: the gradients are first compared on copies of the model, and copy.deepcopy raised "
            f"{type(error).__name__}: {' '.join(str(error).split())}; allowed: a model that can be copied"
        ) from error


def first_changed(plain: Mapping[str, Tensor], scaled: Mapping[str, Tensor]) -> tuple[str, float, float] | None:
    """Return the first gradient that scales have changed, its norm and that of the change; None where they changed none.

    One that overflows is passed over: that is what a scale does to numbers, and no fault of the module.
    """
    if not plain:
        return None
    norms = norms_of(list(plain.values()))
    changes = norms_of([scaled[name] - gradient for name, gradient in plain.items()])
    changed = changes.isfinite() & (changes > TOLERANCE * norms + ROUNDING * total_norm(norms))
    if not changed.any():
        return None
    first = int(changed.nonzero()[0])
    return list(plain)[first], float(norms[first]), float(changes[first])
