"""Divergence: when a run has gone wrong for good, since when, and where. A result, not an error."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from halfscale.instruments.telemetry import Fetched


@dataclass(frozen=True)
class Divergence:
    step: int
    """The first bad step."""
    where: str
    """What was bad there, such as "loss" or "parameter layer1.0.conv1.weight"."""


def find_nonfinite(fetched: list[Fetched], passed_over: Collection[int] = ()) -> Divergence | None:
    """Return the first step with a non-finite loss, update or buffer; None where all are finite.

    Parameters become non-finite by an update applied with non-finite gradients, which the trace shows to the step, or
    by one too large for FP32, which the next loss shows.

    Args:
        fetched: what the telemetry gave, a step each.
        passed_over: steps whose loss does not matter.
    """
    for row, bad_buffer in fetched:
        if not math.isfinite(row["loss"]) and row["step"] not in passed_over:
            return Divergence(row["step"], "loss")
        if row["overflow"] and not row["skipped"]:
            return Divergence(row["step"], f"parameter {row['bad_parameter'] or 'update'}")
        if bad_buffer is not None:
            return Divergence(row["step"], f"buffer {bad_buffer}")
    return None


def find_nonfinite_parameter(model: nn.Module, step: int) -> Divergence | None:
    """Look at the parameters after the last step, since no loss follows that would show them."""
    name = first_nonfinite(model.named_parameters())
    return None if name is None else Divergence(step, f"parameter {name}")


def find_explosion(trace: pd.DataFrame) -> Divergence | None:
    """Return where the loss rose for good: every loss of the last tenth above every loss of the first tenth.

    A tenth is four steps at least, and no run of fewer than eight steps is judged: chance alone would put four last
    losses above four first ones in one run of 70 that does not train at all, and one last above one first in every other.
    Comparing with the initial loss alone would not do: a run that does not train at all would fail by the noise of
    one batch, so as many first steps as last ones are taken.
    """
    loss = trace["loss"].to_numpy(dtype=np.float64)
    tenth = max(4, len(loss) // 10)
    ceiling = loss[:tenth].max()
    if len(loss) < 2 * tenth or not (loss[-tenth:] > ceiling).all():
        return None
    return Divergence(int(np.flatnonzero(loss <= ceiling)[-1]) + 1, "loss above its initial values")


def first_nonfinite(tensors: Iterable[tuple[str, Tensor]]) -> str | None:
    """Return the name of the first tensor that holds an infinity or NaN; None where none does."""
    return next((name for name, tensor in tensors if not torch.isfinite(tensor).all()), None)
