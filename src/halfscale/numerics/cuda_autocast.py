"""CUDA's autocast and CUDA's attention kernels on fake tensors, where there may be no GPU.

`torch.autocast("cuda")` disables itself where there is none, and attention then falls back to the kernel that keeps all
scores, of length x length. Both would make a prediction for a GPU wrong.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


@contextmanager
def cuda_autocast(dtype: torch.dtype | None) -> Iterator[None]:
    """Be under CUDA's autocast to a dtype; None is off."""
    if dtype is None:
        yield
        return
    enabled, before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", enabled)
        torch.set_autocast_dtype("cuda", before)


class CudaAttention(TorchFunctionMode):
    """Sends attention without a mask to the kernel that a GPU takes: flash for 16-bit operands, else the efficient one.

    From Hopper on, torch may prefer cuDNN's for 16-bit operands where determinism is not asked for; it keeps the same.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention and len(args) == 3 and kwargs.get("attn_mask") is None:
            query, key, value = args
            return attend(query, key, value, kwargs.get("dropout_p", 0.0), kwargs.get("is_causal", False))
        return func(*args, **kwargs)


def attend(query: Tensor, key: Tensor, value: Tensor, dropout: float, is_causal: bool) -> Tensor:
    """Return attention (N, heads, T, features), as CUDA's autocast would compute it."""
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    if query.dtype in (torch.float16, torch.bfloat16):
        return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout, is_causal)[0]
    return torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, None, True, dropout, is_causal)[0]
