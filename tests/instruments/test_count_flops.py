"""FLOP of a step against closed forms."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from halfscale.instruments.count_flops import count_flops
from halfscale.instruments.trace_step import trace_step
from halfscale.study.step import Step
from halfscale.workloads.batch import Batch
from halfscale.workloads.registry import build_model

CONVOLUTIONS = {"plain": nn.Conv2d, "transposed": nn.ConvTranspose2d}


class Pooled(nn.Module):
    """A layer of 8 channels to 16 on images that need a gradient, the mean over all points, and a layer of 10 classes."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(16, 10, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.layer(images.requires_grad_()).mean((2, 3)))


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_takes_three_times_its_forward_pass_whatever_its_groups(
    kind: str, groups: int, stride: int
) -> None:
    layer = CONVOLUTIONS[kind](8, 16, 3, stride=stride, padding=1, groups=groups)
    images = torch.randn(2, 8, 12, 12)
    points = 12 * 12 if kind == "transposed" else layer(images)[0, 0].numel()
    forward = 2 * 2 * points * 16 * (8 // groups) * 3 * 3
    head = 2 * 2 * 16 * 10
    assert count_flops(Pooled(layer), Batch(images, torch.zeros(2, dtype=torch.int64), None)) == 3 * (forward + head)


def test_a_frozen_convolution_has_no_weight_gradient() -> None:
    layer = nn.Conv2d(8, 16, 3, groups=8).requires_grad_(False)
    batch = Batch(torch.randn(2, 8, 12, 12), torch.zeros(2, dtype=torch.int64), None)
    assert count_flops(Pooled(layer), batch) == 2 * (2 * 2 * 10 * 10 * 16 * 3 * 3) + 3 * (2 * 2 * 16 * 10)


def test_a_gpt_takes_what_the_closed_form_says_its_attention_included() -> None:
    """On this CPU's own kernels, of which torch's counter sees nothing; FLOP over time is a rate of such a count."""
    depth, width, length, vocabulary, batch = 2, 32, 16, 50, 3
    sizes = {"vocabulary": vocabulary, "context": length, "width": width, "depth": depth, "heads": 4}
    tokens = torch.zeros(batch, length, dtype=torch.int64)
    weights = 12 * depth * width**2 + vocabulary * width
    closed = 6 * weights * batch * length + 14 * batch * length**2 * width * depth
    assert count_flops(build_model("transformer", sizes), Batch(tokens, tokens, None)) == closed


@pytest.mark.parametrize("accounting", ["cpu", "cuda"])
def test_a_trace_counts_a_depthwise_convolution_as_a_real_step_does(accounting: str) -> None:
    case = {
        "name": "depthwise",
        "model": "tiny_workloads:depthwise",
        "input": {"kind": "image", "size": 6},
        "optimizer": {"name": "sgd", "lr": 0.1},
    }
    traced = trace_step(Step.model_validate(case), "fp32", accounting, 5)  # type: ignore[arg-type]
    forward = 2 * 5 * 6 * 6 * 6 * 3 * 3
    # The images need no gradient.
    assert sum(operation.flops for operation in traced.operations) == 2 * forward


def test_an_lstm_has_no_formula_and_so_no_flop() -> None:
    """Torch's kernel multiplies matrices of which its counter sees nothing."""
    tokens = torch.zeros(2, 5, dtype=torch.int64)
    assert count_flops(build_model("tiny_workloads:recurrent", {}), Batch(tokens, tokens, None)) is None


def test_a_bilinear_layer_has_no_formula_and_so_no_flop() -> None:
    batch = Batch(torch.randn(2, 3, 2, 2), torch.zeros(2, dtype=torch.int64), None)
    assert count_flops(build_model("tiny_workloads:multiplied", {}), batch) is None


@torch.library.custom_op("tests::doubled", mutates_args=())
def doubled(values: Tensor) -> Tensor:
    """An operation of a library that torch does not know."""
    return 2 * values


doubled.register_autograd(lambda context, gradient: 2 * gradient)


class Foreign(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return doubled(self.head(inputs))


def test_of_a_foreign_operation_the_flop_are_not_known() -> None:
    assert count_flops(Foreign(), Batch(torch.randn(2, 4), torch.zeros(2, dtype=torch.int64), None)) is None


def test_what_is_computed_twice_is_counted_twice() -> None:
    """A checkpointed layer runs forward once more: four times its forward pass in place of three."""

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle = nn.Linear(4, 8, bias=False), nn.Sequential(nn.Linear(8, 2, bias=False), nn.GELU())

        def forward(self, inputs: Tensor) -> Tensor:
            return checkpoint(self.middle, self.first(inputs), use_reentrant=False)

    batch = Batch(torch.randn(5, 4), torch.zeros(5, dtype=torch.int64), None)
    first, middle = 2 * 5 * 4 * 8, 2 * 5 * 8 * 2
    assert count_flops(Checkpointed(), batch) == 2 * first + 4 * middle
