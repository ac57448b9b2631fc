"""The memory instrument: predict a training step's memory, and hold the prediction against this machine."""

import time
from pathlib import Path

from halfscale.instruments.describe import describe_environment
from halfscale.instruments.largest_batch import largest_batch
from halfscale.instruments.measure_memory import MeasurementError, measure_memory
from halfscale.instruments.predict_memory import Law, memory_law, predict
from halfscale.machine.peaks import DEVICES
from halfscale.numerics.precision import DeviceType, choose_device
from halfscale.study.memory import MemoryCase, MemorySpec
from halfscale.study.predictions import Largest, Measurement, MemoryRecord, Prediction
from halfscale.study.sealed import write_sealed
from halfscale.study.sources import instrument_digest
from halfscale.study.step import Predicted

DEVICE_TYPES: tuple[DeviceType, ...] = ("cpu", "cuda")


def memory(spec: MemorySpec, folder: Path) -> MemoryRecord:
    """Predict and measure one case, and write folder/memory.json."""
    started = time.perf_counter()
    case, device = spec.case, choose_device(spec.device)
    code = instrument_digest("halfscale.instruments.memory", case.model, None)
    # Before fake tensors give this process a CUDA context of its own, which would take memory from what is searched.
    searched = search(case) if case.search and device == "cuda" else {}
    predictions: list[Prediction] = []
    laws: dict[tuple[DeviceType, Predicted], Law] = {}
    for accounting in DEVICE_TYPES:
        for precision in case.precisions:
            # What grows faster than the batch does so in every precision.
            far = precision == case.precisions[0]
            law = laws[accounting, precision] = memory_law(case, precision, accounting, far=far)
            predictions += [predict(case, precision, accounting, batch, law) for batch in case.batch_sizes]
    record = MemoryRecord(
        spec_hash=spec.hash,
        spec=spec,
        parameters=law.parameters,
        predictions=predictions,
        largest=[
            Largest(
                device=each.name, precision=precision, batch_size=laws["cuda", precision].largest(each.memory * 2**30)
            )
            for each in DEVICES
            for precision in case.precisions
            if precision in each.tflops
        ],
        measurements=[
            measure(case, made) for made in predictions if made.accounting == device and made.batch_size in case.measure
        ],
        searched=searched,
        environment=describe_environment(device),
        code=code,
        seconds=time.perf_counter() - started,
    )
    write_sealed(record, folder / "memory.json")
    return record


def measure(case: MemoryCase, prediction: Prediction) -> Measurement:
    """Run what was predicted.

    Raises:
        MeasurementError: it does not run, or does not fit.
    """
    found = measure_memory(case, prediction.precision, prediction.accounting, prediction.batch_size)
    if found is None:
        raise MeasurementError(
            f"{case.name}: {prediction.precision} at batch size {prediction.batch_size} does not fit in this device; "
            "allowed in measure: batch sizes that do"
        )
    return Measurement(
        device=prediction.accounting,
        precision=prediction.precision,
        batch_size=prediction.batch_size,
        predicted=prediction.peak.total,
        **found._asdict(),
    )


def search(case: MemoryCase) -> dict[str, int]:
    """Return the largest batch that runs on the GPU of this machine, by precision."""
    return {
        precision: largest_batch(lambda batch: measure_memory(case, precision, "cuda", batch) is not None)  # noqa: B023 called at once
        for precision in case.precisions
    }
