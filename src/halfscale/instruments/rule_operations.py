"""What autocast makes of single operations whose operands are in its 16-bit dtype: where a CPU and CUDA rule otherwise.

Such is what follows a convolution or a matrix product. Given FP32, an operation on neither list stays FP32.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: functional.linear(x, x[0, 0]),
    "matmul": lambda x: x @ x,
    "conv2d": lambda x: functional.conv2d(x, x[:1]),
    "scaled_dot_product_attention": lambda x: functional.scaled_dot_product_attention(x, x, x),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "relu": functional.relu,
    "gelu": functional.gelu,
    "add": lambda x: x + x,
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "group_norm": lambda x: functional.group_norm(x, 2),
    "softmax": lambda x: functional.softmax(x, dim=-1),
    "log_softmax": lambda x: functional.log_softmax(x, dim=-1),
    "exp": torch.exp,
    "pow": lambda x: x**2,
    "sum": torch.sum,
    "mse_loss": lambda x: functional.mse_loss(x, x),
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.zeros_like(x[:, 0], dtype=torch.int64)),
}
"""By name, on a tensor (2, 4, 8, 8)."""


def rule(operation: str, dtype: torch.dtype, device: str) -> str | None:
    """Return the dtype of an operation's result, under the autocast that is in effect; None where it has no kernel."""
    operand = torch.ones(2, 4, 8, 8, dtype=dtype, device=device)
    try:
        return str(OPERATIONS[operation](operand).dtype).removeprefix("torch.")
    except RuntimeError:  # what torch raises for a missing kernel is this, or derived from it
        return None
