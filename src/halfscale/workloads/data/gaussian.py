"""Images whose Bayes error is known: a template of the class in white noise."""

from collections.abc import Iterator

import numpy as np
import torch

from halfscale.workloads.batch import Batch
from halfscale.workloads.bayes import bayes_loss
from halfscale.workloads.fingerprint import fingerprint
from halfscale.workloads.keys import Stream, generator

CHANNELS = 3


class Gaussian:
    """x = template of class y + eps, with classes equally likely and eps standard normal in every pixel."""

    def __init__(
        self, seed: int, templates: np.ndarray, separation: float, evaluation_batches: int, fingerprint: str
    ) -> None:
        self.seed = seed
        self.templates = templates
        self.evaluation_batches = evaluation_batches
        self.fingerprint = fingerprint
        self.floor = bayes_loss(separation, len(templates))

    def batch(self, index: int, size: int) -> Batch:
        return self.draw(generator(self.seed, Stream.TRAINING, index), size)

    def evaluation(self, size: int) -> Iterator[Batch]:
        """Yield the held-out batches: for one size the same for every seed."""
        for index in range(self.evaluation_batches):
            yield self.draw(generator(0, Stream.EVALUATION, index), size)

    def draw(self, random: np.random.Generator, size: int) -> Batch:
        labels = random.integers(len(self.templates), size=size)
        noise = random.standard_normal((size, *self.templates.shape[1:]))
        inputs = torch.from_numpy((self.templates[labels] + noise).astype(np.float32))
        targets = torch.from_numpy(labels)
        return Batch(inputs, targets, torch.nn.functional.cross_entropy(self.posterior(inputs), targets).float())

    def posterior(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the logits of P(class | image), (N, classes) float64: images (N, 3, H, W) against each template.

        ln P(x | k) = x . mu_k - |mu_k|^2 / 2 + a term of x alone, and templates all have one norm.
        """
        return inputs.double().flatten(1) @ torch.from_numpy(self.templates).flatten(1).T


def build(
    seed: int,
    /,
    *,
    classes: int = 10,
    separation: float = 2.5,
    image_size: int = 32,
    evaluation_batches: int = 8,
) -> Gaussian:
    """Return images (N, 3, image_size, image_size) with targets 0 to classes - 1.

    The oracle is the exact posterior. The floor is its expected loss, exact up to quadrature (workloads/bayes.py, which
    also gives the Bayes accuracy: 81 % with the defaults).

    A template of norm d' drowns in noise of norm sqrt(3) * image_size, so even a linear model sees many images before
    it leaves chance: thousands at 32x32, a few hundred at 4x4. It is a workload for long runs or small images.

    Args:
        seed: the block's; it draws the training images.
        classes: at least 2 and less than image_size ** 2.
        separation: d', a template's norm in units of the noise; from 0, where nothing can be learnt, to 10.
        image_size: height and width.
        evaluation_batches: held-out batches, at least 1.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 2 <= classes < image_size**2:
        raise ValueError(f"classes is {classes}; it must be at least 2 and less than image_size ** 2 = {image_size**2}")
    if not 0 <= separation <= 10:
        raise ValueError(f"separation is {separation}; it must be from 0 to 10")
    if evaluation_batches < 1:
        raise ValueError(f"evaluation_batches is {evaluation_batches}; it must be at least 1")
    arguments = {
        "classes": classes,
        "separation": separation,
        "image_size": image_size,
        "evaluation_batches": evaluation_batches,
    }
    templates = separation * make_templates(classes, image_size)
    return Gaussian(seed, templates, separation, evaluation_batches, fingerprint("gaussian", arguments, templates))


def make_templates(classes: int, size: int) -> np.ndarray:
    """Return orthogonal images of norm 1, (classes, 3, size, size) float64: cosine waves of the lowest frequencies.

    Any orthogonal images have the same Bayes error; these, basis images of the discrete cosine transform repeated in
    every channel, need no random draw. The constant image is left out, lest brightness alone give a class.
    """
    frequencies = sorted((i + j, i, j) for i in range(size) for j in range(size))[1 : classes + 1]
    phase = np.pi * (np.arange(size) + 0.5) / size
    waves = [np.outer(np.cos(i * phase), np.cos(j * phase)) for _, i, j in frequencies]
    images = np.repeat(np.array(waves)[:, None], CHANNELS, axis=1)
    return images / np.sqrt((images**2).sum(axis=(1, 2, 3), keepdims=True))
