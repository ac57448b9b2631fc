"""FLOP of a step against closed forms."""

import pytest
import torch
from torch import Tensor, nn

from halfscale.instruments.count_flops import count_flops
from halfscale.instruments.trace_step import trace_step
from halfscale.study.step import Step
from halfscale.workloads.batch import Batch

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
