"""FP16 matrix arithmetic on CPUs that have no FP16 units.

PyTorch's own FP16 convolutions and matrix products are ten to twenty times slower than FP32 on such CPUs. The
`upcast` backend computes just those kernels in FP32 on the same FP16 operands and rounds each result once to FP16.
That is what a tensor core does (FP16 operands, FP32 accumulation, one rounding), up to the order of summation.
Everything else stays real: autocast's decisions, FP16 activations and their memory, elementwise FP16 kernels,
the loss scale, overflow and underflow.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

MATRIX_KERNELS = frozenset(
    {
        aten.convolution.default,
        aten.convolution_backward.default,
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten.baddbmm.default,
        aten.addbmm.default,
        aten.mv.default,
        aten.addmv.default,
        aten.dot.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default,
        aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    }
)
"""The kernels that are computed in FP32, as they reach the dispatcher below autograd and autocast."""


class Upcast(TorchDispatchMode):
    """Within this context, FP16 matrix kernels on the CPU are computed in FP32 and rounded once to FP16.

    Autograd's backward pass runs within it too when it is called there. FP32 and BF16 kernels are left alone.
    """

    def __torch_dispatch__(self, kernel: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kernel not in MATRIX_KERNELS or not is_half(args[0]) or not is_half(args[1]):
            return kernel(*args, **kwargs)  # operands of mixed precision are for torch to refuse
        result = kernel(*map(widen, args), **{key: widen(value) for key, value in kwargs.items()})
        if kernel is aten._scaled_dot_product_flash_attention_for_cpu.default:
            # The log-sum-exp that attention saves for its backward pass is FP32 in the FP16 kernel too.
            output, logsumexp = result
            return round_to_half(output), logsumexp
        return tuple(map(round_to_half, result)) if isinstance(result, tuple) else round_to_half(result)


def is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.float16


def widen(value: Any) -> Any:
    """Return an FP16 tensor as FP32, exactly; anything else as it is."""
    return value.float() if is_half(value) else value


def round_to_half(value: Any) -> Any:
    """Return an FP32 tensor rounded to nearest FP16; anything else as it is."""
    return value.half() if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value
