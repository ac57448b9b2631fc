"""What an arm does to single modules of a model: FP32 islands, and loss scales of their own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from halfscale.instruments.setup import TrainingError
from halfscale.study.explain import did_you_mean

CALLED = "halfscale_called"
"""The attribute of a treated module that says whether it was called."""


def treat_modules(model: nn.Module, fp32: Iterable[str], scales: Mapping[str, float], device: str) -> None:
    """Make FP32 islands of some modules of a model, and give some a loss scale of their own.

    Args:
        model: on its device.
        fp32: names of modules, as in model.named_modules().
        scales: by the name of a module, a power of two.
        device: the type of the device.

    Raises:
        TrainingError: the model has no such module, or a scaled module shares a parameter with another.
    """
    for name in fp32:
        make_island(find_module(model, "fp32_modules", name), device)
    for name, scale in scales.items():
        module = find_module(model, "layer_scales", name)
        check_own_parameters(model, name)
        scale_gradients(module, scale)


def find_module(model: nn.Module, key: str, name: str) -> nn.Module:
    """Return a module by its name, or by any of its names where several modules hold it.

    Raises:
        TrainingError: there is none; the message begins with the key that gave the name.
    """
    modules = {each: module for each, module in model.named_modules(remove_duplicate=False) if each}
    if name not in modules:
        some = ", ".join(list(modules)[:12]) + (", ..." if len(modules) > 12 else "")
        raise TrainingError(f"{key}: the model has no module {name!r}{did_you_mean(name, modules)}; allowed: {some}")
    return modules[name]


def make_island(module: nn.Module, device: str) -> None:
    """Have a module's forward pass run with autocast off, and on inputs that are cast to FP32."""
    forward = module.forward

    def in_fp32(*arguments: Any, **named: Any) -> Any:
        with torch.autocast(device, enabled=False):
            return forward(*tree_map(to_fp32, arguments), **tree_map(to_fp32, named))

    replace_forward(module, in_fp32)


def to_fp32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


def scale_gradients(module: nn.Module, scale: float) -> None:
    """Multiply the gradient within a module, and nowhere else, by a power of two.

    The gradient that enters at its output is multiplied by the scale, the one that leaves at its input divided by it,
    and those of its parameters too: in exact arithmetic nothing changes, and in FP16 other elements underflow and
    overflow. In FP32 no bit changes but for the order in which the gradient of an input is summed that the module uses
    several times. The loss scale by layer of Zhao et al. 2019 (arXiv 1910.12385), with scales that are chosen beforehand.
    """
    forward = module.forward

    def scaled(*arguments: Any, **named: Any) -> Any:
        divide = multiply_gradient(1 / scale)
        return tree_map(multiply_gradient(scale), forward(*tree_map(divide, arguments), **tree_map(divide, named)))

    replace_forward(module, scaled)
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.register_hook(lambda gradient: gradient / scale)


class MultiplyGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        # The same memory, as no step is to cost a copy, and no view, which autograd lets nobody change in place.
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


def multiply_gradient(factor: float) -> Callable[[Any], Any]:
    """Return a function that multiplies the gradient of what it is given, where that has one."""

    def apply(value: Any) -> Any:
        return MultiplyGradient.apply(value, factor) if isinstance(value, Tensor) and value.requires_grad else value

    return apply


def replace_forward(module: nn.Module, forward: Callable[..., Any]) -> None:
    def noted(*arguments: Any, **named: Any) -> Any:
        setattr(module, CALLED, True)
        return forward(*arguments, **named)

    setattr(module, CALLED, False)
    module.forward = noted


def check_called(model: nn.Module, fp32: Iterable[str], scales: Iterable[str]) -> None:
    """Check, after a forward pass, that treated modules took part in it: what is not called has no treatment.

    Raises:
        TrainingError: one did not, as where its parent uses its weights itself.
    """
    for key, names in (("fp32_modules", fp32), ("layer_scales", scales)):
        for name in names:
            if not getattr(find_module(model, key, name), CALLED):
                raise TrainingError(
                    f"{key}: the model does not call its module {name!r} in training, so that nothing would be done to it; "
                    "allowed: one that is called, such as the module that holds it"
                )


def check_own_parameters(model: nn.Module, name: str) -> None:
    """Check that no other module holds a parameter of a scaled one: its gradient would be divided there too.

    A module that several others hold is one module under several names, and shares nothing with itself.

    Raises:
        TrainingError: one does.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    names = tuple(f"{each}." for each, module in modules.items() if module is modules[name])
    parameters = list(model.named_parameters(remove_duplicate=False))
    own = {id(parameter) for label, parameter in parameters if label.startswith(names)}
    for label, parameter in parameters:
        if id(parameter) in own and not label.startswith(names):
            raise TrainingError(
                f"layer_scales: {name!r} shares a parameter with {label}; allowed: a module whose parameters are its own"
            )
