"""A small convolutional network with batch normalization, for what a ResNet would show at a hundred times the cost."""

from itertools import pairwise

from torch import Tensor, nn


def build(*, channels: int = 16, depth: int = 2, num_classes: int = 10) -> nn.Module:
    """Return a network with fresh weights: images (N, 3, H, W) to logits (N, num_classes).

    Args:
        channels: of the stem; each block after it has twice as many as what comes before, and halves height and width.
        depth: number of blocks after the stem.
        num_classes: logits.

    Raises:
        ValueError: a size is not positive.
    """
    for name, size in {"channels": channels, "depth": depth, "num_classes": num_classes}.items():
        if size < 1:
            raise ValueError(f"{name} is {size}; allowed: 1 or more")
    return ConvNet(channels, depth, num_classes)


class ConvNet(nn.Module):
    def __init__(self, channels: int, depth: int, num_classes: int) -> None:
        super().__init__()
        widths = [channels * 2**block for block in range(depth + 1)]
        self.stem = Block(3, channels, stride=1)
        self.blocks = nn.Sequential(*(Block(narrow, wide, stride=2) for narrow, wide in pairwise(widths)))
        self.head = nn.Linear(widths[-1], num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.convolution(x)).relu()
