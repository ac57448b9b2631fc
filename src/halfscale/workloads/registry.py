"""Models and data by name: the same names, and the same rules, as in a config."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import nn

from halfscale.errors import UserError
from halfscale.study.entry_points import find_entry_point
from halfscale.workloads.batch import Data


class WorkloadError(UserError, RuntimeError):
    """A model or a data set that could not be built; the message names its function."""


def build_model(name: str, arguments: Mapping[str, Any]) -> nn.Module:
    """Build a model, its weights drawn from torch's global generator.

    Args:
        name: a file of halfscale/workloads/models, or package.module:function.
        arguments: the function's keyword arguments.

    Raises:
        ValueError: there is none of that name.
        WorkloadError: its function raised, or returned something else.
    """
    model = call("model", name, arguments)
    if not isinstance(model, nn.Module):
        raise WorkloadError(f"model {name!r} returned {type(model).__name__}, not a torch.nn.Module")
    return model


def build_data(name: str, seed: int, arguments: Mapping[str, Any]) -> Data:
    """Build the data set of one block.

    Args:
        name: a file of halfscale/workloads/data, or package.module:function.
        seed: the block's seed; the function's first positional argument.
        arguments: the function's keyword arguments.

    Raises:
        ValueError: there is none of that name.
        WorkloadError: its function raised, or returned something that is no Data.
    """
    data = call("data", name, arguments, seed)
    missing = [part for part in ("fingerprint", "floor", "batch", "evaluation") if not hasattr(data, part)]
    if missing:
        raise WorkloadError(f"data {name!r} returned {type(data).__name__}, which has no {', no '.join(missing)}")
    return data


def call(kind: Literal["model", "data"], name: str, arguments: Mapping[str, Any], *positional: Any) -> Any:
    """Import the function of that name and call it."""
    entry_point = find_entry_point(kind, name)
    where = f"{entry_point.module}:{entry_point.function}"
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(entry_point.module), entry_point.function)
        return function(*positional, **arguments)
    except ValueError as error:  # an argument that the function itself refuses; its message says it all
        raise WorkloadError(f"{kind} {name!r}: {where}: {error}") from None
    except Exception as error:  # whatever a user's code raises, the message must say whose code it was
        raise WorkloadError(f"{kind} {name!r}: {where} raised {type(error).__name__}: {error}") from error
