"""What a study measures beside its training runs. One file an experiment holds its config and its spec."""

from halfscale.study.model import Model
from halfscale.study.throughput import Throughput


class Experiments(Model):
    """Measurements beside the training runs; what is left out is not done."""

    throughput: Throughput | None = None
    """Time and rate of a training step, by precision and whatever else may differ."""
