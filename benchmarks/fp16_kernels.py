"""Native kernels on this CPU, forward and backward: FP32, BF16 and FP16.

    python benchmarks/fp16_kernels.py [rounds]

A CPU that multiplies FP16 matrices in the forward pass need not do so in the backward pass, and only one that does both
trains in FP16 by native kernels.
"""

import sys

import torch
from interleave import interleave, report
from torch.nn.functional import conv2d, linear, scaled_dot_product_attention

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def operations(dtype: torch.dtype) -> dict:
    """Return a convolution, a matrix product and attention of the default study's sizes, with what they work on."""
    images = torch.randn(16, 64, 8, 8).to(dtype, memory_format=torch.channels_last).requires_grad_()
    kernel = torch.randn(64, 64, 3, 3).to(dtype).requires_grad_()
    tokens, weight = (torch.randn(*shape).to(dtype).requires_grad_() for shape in ((1024, 128), (512, 128)))
    queries = torch.randn(16, 4, 64, 32).to(dtype).requires_grad_()
    return {
        "convolution": (lambda: conv2d(images, kernel, padding=1), (images, kernel)),
        "product": (lambda: linear(tokens, weight), (tokens, weight)),
        "attention": (lambda: scaled_dot_product_attention(queries, queries, queries, is_causal=True), (queries,)),
    }


def forward(run) -> object:
    @torch.no_grad()
    def step(number: int) -> None:
        run()

    return step


def backward(run, inputs) -> object:
    output = run()
    gradient = torch.ones_like(output)
    return lambda number: torch.autograd.grad(output, inputs, gradient, retain_graph=True)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    torch.set_num_threads(1)
    by_format = {name: operations(dtype) for name, dtype in DTYPES.items()}
    for name in by_format["fp32"]:
        report(
            f"{name}, forward", interleave({each: forward(made[name][0]) for each, made in by_format.items()}, rounds)
        )
        report(
            f"{name}, backward", interleave({each: backward(*made[name]) for each, made in by_format.items()}, rounds)
        )


if __name__ == "__main__":
    main()
