"""Count the floating-point operations of a training step: 2 FLOP a multiply-add, no recomputation counted."""

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


CPU_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
}
"""The CPU's attention kernels, of which torch's own counter sees nothing."""


def count_flops(model: nn.Module, batch: Batch) -> int:
    """Return the FLOP of forward and backward pass on a batch; gradients are cleared after.

    Args:
        model: in training mode, on the batch's device.
        batch: inputs and targets.
    """
    with FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION) as counter:
        logits = model(batch.inputs)
        cross_entropy(logits.flatten(0, -2), batch.targets.flatten()).backward()
    model.zero_grad()
    return counter.get_total_flops()
