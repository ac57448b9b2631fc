"""FP16 and BF16 matrix arithmetic on CPUs that have no units for it.

PyTorch's own 16-bit convolutions and matrix products are many times slower than FP32 on such CPUs: a step takes six to
thirteen times as long. The `upcast` backend computes just those kernels in FP32 on the same 16-bit
operands and rounds each result once. That is what a tensor core does (16-bit operands, FP32 accumulation, one rounding),
up to the order of summation. Everything else stays real: autocast's decisions, 16-bit activations and their memory,
elementwise 16-bit kernels, the loss scale, overflow and underflow.
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
    """Within this context, matrix kernels of a 16-bit dtype on the CPU are computed in FP32 and rounded once to it.

    Autograd's backward pass runs within it too when it is called there. Kernels of other dtypes are left alone.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(self, kernel: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kernel not in MATRIX_KERNELS or not self.catches(args[0]) or not self.catches(args[1]):
            return kernel(*args, **kwargs)  # operands of mixed precision are for torch to refuse
        result = kernel(*map(self.widen, args), **{key: self.widen(value) for key, value in kwargs.items()})
        if kernel is aten._scaled_dot_product_flash_attention_for_cpu.default:
            # The log-sum-exp that attention saves for its backward pass is FP32 in the 16-bit kernel too.
            output, logsumexp = result
            return self.round(output), logsumexp
        return tuple(map(self.round, result)) if isinstance(result, tuple) else self.round(result)

    def catches(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype is self.dtype

    def widen(self, value: Any) -> Any:
        """Return a 16-bit tensor as FP32, exactly; anything else as it is."""
        return value.float() if self.catches(value) else value

    def round(self, value: Any) -> Any:
        """Return an FP32 tensor rounded to the nearest of 16 bits; anything else as it is."""
        return value.to(self.dtype) if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value
