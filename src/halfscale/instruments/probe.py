"""The probe instrument: the gradients of one batch at fixed weights, in FP32, in BF16, and in FP16 at every scale.

The weights are those of the reference's run after so many steps, and the batch is the micro-batch that comes next in it.
What is differentiated is the loss divided by the number of micro-batches in a step, as in training, so that a scale
means the same in both.
"""

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from halfscale.instruments.compare_gradients import Compared, Reference, compare
from halfscale.instruments.describe import describe_effective, describe_environment
from halfscale.instruments.forward import forward
from halfscale.instruments.run import Run, prepare
from halfscale.instruments.train import take_step
from halfscale.machine.devices import has_precision
from halfscale.numerics.loss_scaling import make_scaler
from halfscale.numerics.precision import AUTOCAST, Precision, arithmetic, choose_backend
from halfscale.study.arm import NoLossScaling
from halfscale.study.probe import ProbeSpec
from halfscale.study.probings import ProbeRecord, write_gradients
from halfscale.study.records import Effective
from halfscale.study.sealed import write_sealed
from halfscale.study.sources import instrument_digest
from halfscale.workloads.batch import Batch

Gradients = dict[str, Tensor]
"""By the parameter's name."""


def probe(spec: ProbeSpec, folder: Path, progress: Callable[[int], None] = lambda done: None) -> None:
    """Probe a run's weights and write folder/gradients.parquet, then folder/probe.json.

    Args:
        spec: what to probe.
        folder: where the records go.
        progress: called after each gradient with the number of them so far, counted as probe_length does.

    Raises:
        UnavailableError: the device is not to be had, or a precision not in effect.
        TrainingError: the model or the data cannot be trained.
    """
    started = time.perf_counter()
    code = instrument_digest("halfscale.instruments.probe", spec.run.model, spec.run.data)
    run = prepare(spec.run)
    precisions: list[Precision] = [each for each in ("fp32", "bf16", "fp16") if has_precision(run.device, each)]
    effective = {precision: effective_of(run, precision) for precision in precisions}
    rows: list[dict[str, Any]] = []
    losses: list[float | None] = []
    taken = done = 0
    for step in spec.steps:
        run.model.train()
        while taken < step:
            if take_step(run, taken):
                run.telemetry.fetch()  # else its buffer is full
            taken += 1
        batch = run.data.batch(step * spec.run.accumulate, spec.run.batch_size)
        loss, reference = gradients_of(run, batch, effective["fp32"], 1.0)
        losses.append(loss if math.isfinite(loss) else None)
        references = {name: Reference(gradient) for name, gradient in reference.items()}
        for precision, exponent, gradients in formats(run, batch, effective, spec.exponents, reference):
            rows += rows_of(step, precision, exponent, gradients, references)
            done += 1
            progress(done)
    record = ProbeRecord(
        spec=spec,
        spec_hash=spec.hash,
        effective=list(effective.values()),
        losses=losses,
        environment=describe_environment(run.device),
        code=code,
        seconds=time.perf_counter() - started,
        gradients_sha256=write_gradients(pd.DataFrame(rows), spec, folder / "gradients.parquet"),
    )
    write_sealed(record, folder / "probe.json")


def probe_length(spec: ProbeSpec) -> int:
    """Return about how many gradients a probe takes: FP32, BF16 and FP16 at each scale, at each of its steps."""
    return len(spec.steps) * (len(spec.exponents) + 2)


def effective_of(run: Run, precision: Precision) -> Effective:
    """Return what torch says is in effect under a precision."""
    scaler = make_scaler(NoLossScaling(kind="none"), run.device)
    backend = choose_backend(run.spec.backend, run.device, precision)
    return describe_effective(run.device, precision, precision, backend, scaler, run.data.fingerprint)


def formats(
    run: Run, batch: Batch, effective: dict[Precision, Effective], exponents: list[int], reference: Gradients
) -> Iterator[tuple[Precision, int | None, Gradients]]:
    """Yield the gradients of each format: FP32 itself, BF16, and FP16 at each scale; each is gone when the next comes.

    Between the largest scale that does not overflow and the next, the scales that were left out are tried too.
    """
    yield "fp32", None, reference
    if "bf16" in effective:
        yield "bf16", None, gradients_of(run, batch, effective["bf16"], 1.0)[1]
    if "fp16" not in effective:
        return
    clean: list[int] = []
    for exponent in exponents:
        gradients = gradients_of(run, batch, effective["fp16"], 2.0**exponent)[1]
        if all_finite(gradients):
            clean.append(exponent)
        yield "fp16", exponent, gradients
    if clean and clean[-1] < exponents[-1]:
        upper = exponents[exponents.index(clean[-1]) + 1]
        for exponent in range(clean[-1] + 1, upper):
            yield "fp16", exponent, gradients_of(run, batch, effective["fp16"], 2.0**exponent)[1]


def gradients_of(run: Run, batch: Batch, effective: Effective, scale: float) -> tuple[float, Gradients]:
    """Return the loss, and the gradient of scale x loss / accumulate, by the real autocast path.

    Buffers and random numbers stay as they were, so that dropout drops the same for every format, and what is trained
    after is trained as if nobody had looked. A parameter without a gradient has one of zeros.
    """
    buffers = [buffer.clone() for buffer in run.model.buffers()]
    devices = [torch.cuda.current_device()] if run.device == "cuda" else []
    with torch.random.fork_rng(devices), arithmetic(effective.precision, effective.backend):
        loss, _ = forward(run.model, batch, effective, run.spec.memory_format)
        (run.spec.loss_factor * loss / run.spec.accumulate * scale).backward()  # in the order of training
    gradients = {
        name: torch.zeros_like(each) if each.grad is None else each.grad
        for name, each in run.model.named_parameters()
        if each.requires_grad and each.numel()
    }
    run.optimizer.zero_grad()
    for buffer, before in zip(run.model.buffers(), buffers, strict=True):
        buffer.copy_(before)
    return float(loss.detach()), gradients


def all_finite(gradients: Gradients) -> bool:
    return all(bool(torch.isfinite(gradient).all()) for gradient in gradients.values())


def rows_of(
    step: int,
    precision: Precision,
    exponent: int | None,
    gradients: Gradients,
    references: dict[str, Reference],
) -> list[dict[str, Any]]:
    """Return the rows of one format and scale: the model as a whole first, then each parameter."""
    scale = 1.0 if exponent is None else 2.0**exponent
    dtype = AUTOCAST.get(precision)
    smallest = 0.0 if dtype is None else torch.finfo(dtype).smallest_normal
    compared = {name: compare(gradients[name], each, scale, smallest) for name, each in references.items()}
    first, *others = compared.values()
    whole = first
    for each in others:
        whole = whole + each
    named = [("", whole), *compared.items()]
    return [
        {"step": step, "precision": precision, "exponent": exponent, "parameter": name, **cells(each)}
        for name, each in named
    ]


def cells(compared: Compared) -> dict[str, Any]:
    """Return the columns of one comparison."""
    names = ("elements", "norm", "largest", "overflow", "error", "cosine", "true_zero", "flushed", "subnormal")
    return {name: getattr(compared, name) for name in names}
