"""What the best possible classifier of K equally likely classes reaches, when each class is a template in white noise.

Templates are orthogonal and of equal norm, so only two numbers matter: K, and the separation d' = |template| / sigma.
The match of an image with its own template, in units of the noise, is N(d', 1); with each other one, N(0, 1).
"""

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr

RANGE = 12.0
"""A standard normal lies beyond it with a chance below 1e-32."""


def bayes_accuracy(separation: float, classes: int) -> float:
    """Return the chance that the image's own template matches best: integral of phi(t - d') Phi(t)^(K-1) dt."""

    def integrand(t: float) -> float:
        return normal_density(t - separation) * ndtr(t) ** (classes - 1)

    return quad(integrand, separation - RANGE, separation + RANGE, points=[separation])[0]


def bayes_loss(separation: float, classes: int) -> float:
    """Return the expected -ln P(class | image), in nats: the conditional entropy, to about 1e-9.

    With z_k standard normal, d = d' and S = exp(d^2 + d z_0) + sum over the others of exp(d z_k), it is
    E[ln S] - d^2. E[ln S] would be an integral in K dimensions. But a Gumbel variable of location ln S is the largest
    of independent Gumbel variables located at the K exponents (the Gumbel-max identity), and its distribution
    function is a product of K one-dimensional integrals. Its mean exceeds that of a standard Gumbel by E[ln S], and
    the difference of two means is the integral of the difference of their distribution functions.
    """
    z = np.linspace(-RANGE, RANGE, 2001)
    weights = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()

    def below(v: float, location: float) -> float:
        """Return the chance that a standard Gumbel variable plus N(location, d'^2) is less than v."""
        return float(weights @ np.exp(-np.exp(location + separation * z - v)))

    def integrand(v: float) -> float:
        return math.exp(-math.exp(-v)) - below(v, separation**2) * below(v, 0) ** (classes - 1)

    middle = separation**2 + math.log(classes)
    low, high = -RANGE * separation - 10, middle + RANGE * separation + 40
    return quad(integrand, low, high, points=[0, middle], limit=200, epsabs=1e-10)[0] - separation**2


def normal_density(t: float) -> float:
    return math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
