"""What a study measures beside its training runs. One file an experiment holds its config and its spec."""

from halfscale.study.claims import Claims
from halfscale.study.equivalence import Equivalence
from halfscale.study.memory import Memory
from halfscale.study.model import Model
from halfscale.study.output_dtypes import OutputDtypes
from halfscale.study.practices import Practices
from halfscale.study.probe import Probe
from halfscale.study.roofline import Roofline
from halfscale.study.throughput import Throughput


class Experiments(Model):
    """Measurements beside the training runs; what is left out is not done."""

    output_dtypes: OutputDtypes | None = None
    """Dtypes of the outputs of every module under autocast, on a CPU and on CUDA."""
    probe: Probe | None = None
    """Gradients at fixed weights in every format and at every loss scale: the operating window."""
    throughput: Throughput | None = None
    """Time and rate of a training step, by precision and whatever else may differ."""
    memory: Memory | None = None
    """Memory of a training step, by kind, predicted at any size and held against this machine."""
    roofline: Roofline | None = None
    """Time of a training step on hardware that is not here, as data sheets bound it."""
    practices: Practices | None = None
    """Wrong ways to train in half precision, and remedies for overflow, each held against another arm of its block."""
    equivalence: Equivalence | None = None
    """Whether final losses are shown to be the same as the reference's, within a margin; no run depends on it."""
    claims: Claims = Claims()
    """Thresholds by which claims about half precision are judged from all that is measured."""
