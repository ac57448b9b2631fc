"""ResNet-50 (He et al. 2016, arXiv 1512.03385), as torchvision builds it."""

from torch import nn
from torchvision.models import resnet


def build(*, num_classes: int = 10, zero_init_residual: bool = True) -> nn.Module:
    """Return ResNet-50 with fresh weights: images (N, 3, H, W) to logits (N, num_classes).

    Args:
        num_classes: 1000 gives the published 25,557,032 parameters.
        zero_init_residual: start every residual branch at zero (Goyal et al. 2017, arXiv 1706.02677, section 5.1),
            without which training at a small batch size starts slowly.
    """
    return resnet.resnet50(weights=None, num_classes=num_classes, zero_init_residual=zero_init_residual)
