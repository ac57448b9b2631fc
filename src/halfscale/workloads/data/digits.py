"""Real images without a download: the 1,797 handwritten digits, 8x8, that scikit-learn ships (UCI 80)."""

import gzip
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from halfscale.workloads.batch import Batch
from halfscale.workloads.fingerprint import fingerprint
from halfscale.workloads.keys import Stream, generator

HELD_OUT_EVERY = 5
"""Images 0, 5, 10, ... are held out: 360 of 1,797, the same for every seed."""


class Digits:
    """Digits upsampled to image_size, three equal channels, about zero mean and unit variance."""

    floor = None

    def __init__(self, seed: int, image_size: int) -> None:
        images, labels = read_digits()
        held_out = np.arange(len(images)) % HELD_OUT_EVERY == 0
        mean, deviation = images[~held_out].mean(), images[~held_out].std()
        self.seed = seed
        self.image_size = image_size
        self.images = torch.from_numpy((images - mean) / deviation)
        self.labels = torch.from_numpy(labels)
        self.training = np.flatnonzero(~held_out)
        self.held_out = np.flatnonzero(held_out)
        arguments = {"image_size": image_size, "held_out_every": HELD_OUT_EVERY}
        self.fingerprint = fingerprint("digits", arguments, images, labels)

    def batch(self, index: int, size: int) -> Batch:
        """Return training samples index*size to (index+1)*size - 1 of an endless row of shuffled epochs."""
        samples = np.arange(index * size, (index + 1) * size)
        epochs, places = np.divmod(samples, len(self.training))
        chosen = np.empty(size, dtype=np.int64)
        for epoch in np.unique(epochs):
            order = generator(self.seed, Stream.TRAINING, epoch).permutation(self.training)
            chosen[epochs == epoch] = order[places[epochs == epoch]]
        return self.take(chosen)

    def evaluation(self, size: int) -> Iterator[Batch]:
        """Yield the held-out images in their own order, in batches of at most `size`."""
        for start in range(0, len(self.held_out), size):
            yield self.take(self.held_out[start : start + size])

    def take(self, chosen: np.ndarray) -> Batch:
        """Return these images, upsampled only now: at 224x224 all of them would fill a gigabyte."""
        images = upsample(self.images[chosen], self.image_size)
        return Batch(images, self.labels[chosen], oracle_loss=None)


def build(seed: int, /, *, image_size: int = 32) -> Digits:
    """Return the digits as images (N, 3, image_size, image_size) with targets 0 to 9; no floor is known.

    Args:
        seed: the block's; it orders the training images.
        image_size: height and width, at least 8.

    Raises:
        ValueError: image_size is less than 8.
        FileNotFoundError: scikit-learn is not installed, or ships its digits elsewhere.
    """
    if image_size < 8:
        raise ValueError(f"image_size is {image_size}; the digits are 8x8, so it must be at least 8")
    return Digits(seed, image_size)


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the images, (1797, 8, 8) float32 in 0 to 1, and their labels, (1797,) int64.

    Raises:
        FileNotFoundError: scikit-learn is not installed, or ships its digits elsewhere.
    """
    # load_digits() reads this very file, but importing sklearn.datasets takes more than a second,
    # which every run, being a process of its own, would pay again. find_spec imports nothing.
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("data 'digits' needs scikit-learn, which is not installed")
    path = Path(spec.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    if not path.is_file():
        raise FileNotFoundError(f"data 'digits': this version of scikit-learn ships no {path}")
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :-1].reshape(-1, 8, 8) / 16, table[:, -1].astype(np.int64)


def upsample(images: Tensor, size: int) -> Tensor:
    """Return grey images (N, 8, 8) as (N, 3, size, size), interpolated bilinearly."""
    larger = functional.interpolate(images[:, None], size=(size, size), mode="bilinear", align_corners=False)
    return larger.repeat(1, 3, 1, 1)
