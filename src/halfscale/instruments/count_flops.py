"""Count the floating-point operations of a training step: 2 FLOP a multiply-add.

Convolutions, matrix products and attention count. What does little more than an operation an element counts nothing.
"""

from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import (
    FlopCounterMode,
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
    shape_wrapper,
)

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


FORMULAS = {**flop_registry, **{operation: shape_wrapper(count) for operation, count in OURS.items()}}
"""FLOP of an operation, by the operation."""

UNCOUNTED = {
    "mkldnn_rnn_layer",
    "mkldnn_rnn_layer_backward",
    "_cudnn_rnn",
    "_cudnn_rnn_backward",
    "miopen_rnn",
    "miopen_rnn_backward",
    "_trilinear",
    "addbmm",
    "_addmm_activation",
    "_grouped_mm",
    "_scaled_grouped_mm",
    "_int_mm",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_fused_attention_overrideable_backward",
    "_cdist_forward",
    "_cdist_backward",
    "linalg_cholesky_ex",
    "linalg_householder_product",
    "linalg_inv_ex",
    "linalg_lu_factor_ex",
    "linalg_lu_solve",
    "linalg_matrix_exp",
    "linalg_qr",
    "linalg_solve_triangular",
    "_linalg_eigh",
    "_linalg_solve_ex",
    "_linalg_svd",
}
"""Operations of torch, by name, that multiply matrices or do as much, and for which there is no formula."""

TORCHS = {"aten", "prim", "prims", "profiler"}
"""Namespaces of torch's own operations."""


def is_uncounted(operation: Any, arguments: Any) -> bool:
    """Return whether an operation may do much arithmetic, and has no formula: of another library's, nobody knows.

    Args:
        operation: as a dispatch mode is given it.
        arguments: its own.
    """
    if not isinstance(operation, torch._ops.OpOverload) or operation._overloadpacket in FORMULAS:
        return False
    if operation.namespace in TORCHS:
        return operation._overloadpacket.__name__ in UNCOUNTED
    return any(isinstance(leaf, Tensor) for leaf in tree_leaves(arguments))


class Uncounted(TorchDispatchMode):
    """Writes down the operations that no formula counts."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_uncounted(func, (args, kwargs)):
            self.names.append(str(func))
        return func(*args, **kwargs)


def count_flops(model: nn.Module, batch: Batch) -> int | None:
    """Return the FLOP of forward and backward pass on a batch, None where an operation has no formula.

    What activation checkpointing computes a second time is counted a second time. Gradients are cleared after.

    Args:
        model: in training mode, on the batch's device.
        batch: inputs and targets.
    """
    # Torch's counter, being the inner one, takes an operation apart before this one looks at its parts.
    with Uncounted() as uncounted, FlopCounterMode(display=False, custom_mapping=OURS) as counter:
        logits = model(batch.inputs)
        cross_entropy(logits.flatten(0, -2), batch.targets.flatten()).backward()
    model.zero_grad()
    return None if uncounted.names else counter.get_total_flops()
