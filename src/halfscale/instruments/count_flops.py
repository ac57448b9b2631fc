"""Count the floating-point operations of a training step: 2 FLOP a multiply-add."""

from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from halfscale.workloads.batch import Batch


def attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Return the FLOP of attention from the shapes of query, key and value."""
    return sdpa_flop_count(query, key, value)


def attention_backward(gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Return the FLOP of attention's backward pass from the shapes of the output's gradient, query, key and value."""
    return sdpa_backward_flop_count(gradient, query, key, value)


def convolution_backward(
    gradient: Any,
    inputs: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
    **_: Any,
) -> int:
    """Return the FLOP of a convolution's backward pass: for each gradient that is asked for, as many as forward.

    The weight's shape has the groups in it, and the others' shapes have stride, padding and dilation.

    Args:
        gradient: shape of the output's gradient, (N, channels out, ...).
        inputs: shape of the input, (N, channels in, ...).
        weight: shape (channels out, channels in / groups, ...); of a transposed one (in, out / groups, ...).
        transposed: whether each of the kernel's products belongs to a point of the input and not of the output.
        output_mask: which gradients are asked for: of the input, of the weight, of the bias.
    """
    points = prod((inputs if transposed else gradient)[2:])
    forward = 2 * gradient[0] * points * prod(weight)
    return forward * (bool(output_mask[0]) + bool(output_mask[1]))


CONVOLUTION = {torch.ops.aten.convolution_backward: convolution_backward}
"""Torch's own formula for the weight's gradient leaves out that there may be groups."""

CPU_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
}
"""The CPU's attention kernels, of which torch's own counter sees nothing."""

OURS = {**CONVOLUTION, **CPU_ATTENTION}
"""The formulas that torch does not have, or has otherwise."""


def count_flops(model: nn.Module, batch: Batch) -> int:
    """Return the FLOP of forward and backward pass on a batch; gradients are cleared after.

    What activation checkpointing computes a second time is counted a second time, for it is computed.

    Args:
        model: in training mode, on the batch's device.
        batch: inputs and targets.
    """
    with FlopCounterMode(display=False, custom_mapping=OURS) as counter:
        logits = model(batch.inputs)
        cross_entropy(logits.flatten(0, -2), batch.targets.flatten()).backward()
    model.zero_grad()
    return counter.get_total_flops()
