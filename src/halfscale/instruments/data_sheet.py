"""What the data sheet of the device at hand allows the variants that were timed on it."""

from collections.abc import Iterable
from contextlib import suppress

from halfscale.instruments.roofline import TRACED, least_seconds
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.trace_step import StepTrace, trace_step
from halfscale.machine.peaks import find_device
from halfscale.study.step import Image, Predicted, Step, Tokens
from halfscale.study.throughput import ThroughputSpec, Variant
from halfscale.study.timings import DataSheet
from halfscale.workloads.batch import Batch


def data_sheet(spec: ThroughputSpec, timed: Iterable[Variant], reported: str, batch: Batch) -> DataSheet | None:
    """Return the peaks and the bounds for what was timed; None where the device is not listed.

    Args:
        spec: of the measurement.
        timed: its variants that were timed.
        reported: the device's name as torch reports it.
        batch: a batch of any size, whose inputs say what a sample is.
    """
    device = find_device(reported)
    if device is None:
        return None
    listed = [each for each in timed if each.precision in device.tflops]
    sample = sample_of(batch)
    seconds: dict[str, float] = {}
    if sample is not None:
        step = Step(
            name=spec.workload, model=spec.model, model_args=spec.model_args, input=sample, optimizer=spec.optimizer
        )
        traces: dict[tuple[Predicted, int], StepTrace] = {}
        for precision, size in dict.fromkeys((TRACED[each.precision], each.batch_size) for each in listed):
            with suppress(TrainingError):  # a step that can be timed is worth its record, whether traced or not
                traces[precision, size] = trace_step(step, precision, "cuda", size)
        for each in listed:
            trace = traces.get((TRACED[each.precision], each.batch_size))
            if trace is not None and not trace.uncounted:
                seconds[each.name] = least_seconds(trace.operations, device, each.precision)
    peaks: dict[str, float] = {each.precision: 1e12 * device.tflops[each.precision] for each in listed}
    return DataSheet(device=device.name, peaks=peaks, least_seconds=seconds)


def sample_of(batch: Batch) -> Image | Tokens | None:
    """Return what one sample is; None where it is neither a square image nor a sequence of tokens."""
    inputs = batch.inputs
    if inputs.is_floating_point() and inputs.dim() == 4 and inputs.shape[2] == inputs.shape[3]:
        return Image(kind="image", channels=inputs.shape[1], size=inputs.shape[2])
    if not inputs.is_floating_point() and inputs.dim() == 2:
        return Tokens(kind="tokens", length=inputs.shape[1])
    return None
