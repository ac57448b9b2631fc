"""A training step at any size, for what is predicted of it: the model, what its input is, and the optimizer."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from halfscale.study.entry_points import bind_arguments, find_entry_point
from halfscale.study.model import Count, Model, Name
from halfscale.study.workload import Optimizer

Kind = Literal["weights", "gradients", "optimizer", "inputs", "activations", "weight_copies", "temporaries"]
"""What a piece of memory is for.

weights: parameters and buffers. optimizer: its state. inputs: the batch. activations: saved for the backward pass.
weight_copies: 16-bit casts of weights, alive from the forward to the backward pass. temporaries: all else.
"""

KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]

Predicted = Literal["fp32", "bf16", "fp16"]
"""The precisions whose memory differs: tf32 keeps what fp32 keeps."""


class Image(Model):
    """Square images and one class each."""

    kind: Literal["image"]
    channels: Count = 3
    """Channels of an image."""
    size: Count
    """Height and width, pixels."""


class Tokens(Model):
    """Sequences of tokens and one class a token."""

    kind: Literal["tokens"]
    length: Count
    """Tokens in a sequence."""


class Step(Model):
    """A model, the shape of its input, and its optimizer. The weights' values and the data do not matter."""

    name: Name
    """What the case is called in tables and figures."""
    model: str
    """A file of halfscale/workloads/models, or package.module:function returning an nn.Module."""
    model_args: dict[str, Any] = Field(default={})
    """Keyword arguments of the model's function; checked against its signature."""
    input: Annotated[Image | Tokens, Field(discriminator="kind")]
    """What one sample is."""
    optimizer: Optimizer
    """sgd or adamw, with its settings."""

    @model_validator(mode="before")
    @classmethod
    def fill_in_arguments(cls, values: Any) -> Any:
        """Complete model_args with their defaults, so one case has one canonical form."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        name, arguments = values.get("model"), values.get("model_args", {})
        if isinstance(name, str) and isinstance(arguments, dict):
            values["model_args"] = bind_arguments(find_entry_point("model", name), arguments)
        return values


def refuse_repeated(values: Sequence[Any]) -> None:
    """Raise ValueError if a value stands twice."""
    if len(set(values)) < len(values):
        raise ValueError(f"{list(values)} names one twice; each must be unique")
