"""The output dtypes instrument: what autocast makes of a model's outputs, on this CPU and as CUDA would have them.

The CPU's are measured, on one batch. CUDA's are measured where that is the study's device; else they are predicted by
fake tensors, which have shapes and dtypes and no contents.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import cross_entropy

from halfscale.instruments.describe import describe_effective, describe_environment
from halfscale.instruments.forward import forward
from halfscale.instruments.rule_operations import OPERATIONS, rule
from halfscale.instruments.setup import MEMORY_FORMATS, build_fp32_model
from halfscale.instruments.walk_back import walk_back
from halfscale.instruments.watch_outputs import watch_outputs
from halfscale.machine.devices import be_deterministic, has_precision
from halfscale.numerics.cuda_autocast import CudaAttention, cuda_autocast
from halfscale.numerics.loss_scaling import make_scaler
from halfscale.numerics.precision import (
    AUTOCAST,
    DeviceType,
    arithmetic,
    autocast,
    choose_backend,
    choose_device,
    set_tf32,
)
from halfscale.study.arm import NoLossScaling
from halfscale.study.output_dtypes import OutputDtypesSpec
from halfscale.study.passes import How, OutputDtypesRecord, Pass, Ruling
from halfscale.study.sealed import write_sealed
from halfscale.study.sources import instrument_digest
from halfscale.study.step import Predicted
from halfscale.workloads.batch import Batch
from halfscale.workloads.registry import build_data, build_model

PRECISIONS: tuple[Predicted, ...] = ("fp32", "bf16", "fp16")
NO_GRADIENT = "none"


def output_dtypes(spec: OutputDtypesSpec, folder: Path) -> OutputDtypesRecord:
    """Look at one workload and write folder/output_dtypes.json.

    Raises:
        UnavailableError: the device is not to be had, or a precision not in effect.
        TrainingError: the model or the data cannot be trained.
    """
    started = time.perf_counter()
    code = instrument_digest("halfscale.instruments.output_dtypes", spec.model, spec.data)
    device = choose_device(spec.device)
    be_deterministic(threads=1)
    set_tf32(False)
    data = build_data(spec.data, spec.seed, spec.data_args)
    batch = data.batch(0, spec.batch_size)
    passes = [measure(spec, batch, data.fingerprint, "cpu", precision) for precision in PRECISIONS]
    for precision in PRECISIONS:
        if device == "cuda":
            passes.append(measure(spec, batch, data.fingerprint, "cuda", precision))
        else:
            passes.append(predict(spec, batch, precision))
    record = OutputDtypesRecord(
        spec_hash=spec.hash,
        spec=spec,
        passes=passes,
        rulings=[*rulings("cpu", "measured"), *rulings("cuda", "measured" if device == "cuda" else "predicted")],
        environment=describe_environment(device),
        code=code,
        seconds=time.perf_counter() - started,
    )
    write_sealed(record, folder / "output_dtypes.json")
    return record


def measure(spec: OutputDtypesSpec, batch: Batch, data: str, device: DeviceType, precision: Predicted) -> Pass:
    """Take one forward and backward pass as training does, and return what it gave."""
    if not has_precision(device, precision):
        return unavailable(device, precision, "this device has no such precision")
    backend = choose_backend(spec.backend, device, precision)
    scaler = make_scaler(NoLossScaling(kind="none"), device)
    effective = describe_effective(device, precision, precision, backend, scaler, data)
    model = build_fp32_model(spec.model, spec.model_args, spec.seed)
    model.to(device).to(memory_format=MEMORY_FORMATS[spec.memory_format]).train()
    with arithmetic(precision, backend):
        with watch_outputs(model) as watch:
            loss, _ = forward(model, batch, effective, spec.memory_format)
        loss.backward()
    return Pass(
        device=device,
        precision=precision,
        how="measured",
        why="",
        outputs=watch.outputs,
        never_called=watch.never_called,
        gradients=gradients_of(model),
    )


def predict(spec: OutputDtypesSpec, batch: Batch, precision: Predicted) -> Pass:
    """Take one forward and backward pass of fake tensors as CUDA's autocast has it, and return what it gave."""
    try:
        with FakeTensorMode(), torch.device("cuda"):
            model = build_model(spec.model, spec.model_args).train()
            inputs, targets = fake_like(batch.inputs), fake_like(batch.targets)
            with CudaAttention(), watch_outputs(model) as watch:  # of two, the inner one sees a call first
                with cuda_autocast(AUTOCAST.get(precision)):
                    logits = model(inputs)
                loss = cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
            why = walk(loss)
    except Exception as error:  # whatever a model of the user's own raises on tensors that have no contents
        return unavailable("cuda", precision, in_a_line(error))
    return Pass(
        device="cuda",
        precision=precision,
        how="predicted",
        why=why,
        outputs=watch.outputs,
        never_called=watch.never_called,
        gradients={} if why else gradients_of(model),
    )


def fake_like(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape and dtype under the fake mode and the device that are in effect."""
    return torch.empty(tuple(tensor.shape), dtype=tensor.dtype)


def walk(loss: Tensor) -> str:
    """Take the backward pass of fake tensors; return why it is not to be had, empty where it is."""
    root = [loss.grad_fn]
    try:
        walk_back(root, torch.ones_like(loss))
    except Exception as error:  # such as an autograd function of the user's own
        return f"backward pass: {in_a_line(error)}"
    return ""


def unavailable(device: DeviceType, precision: Predicted, why: str) -> Pass:
    """Return a pass that is not to be had."""
    return Pass(
        device=device, precision=precision, how="unavailable", why=why, outputs=[], never_called=[], gradients={}
    )


def in_a_line(error: Exception) -> str:
    """Return an error and the first line of what it says."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}".rstrip(": ")


def gradients_of(model: nn.Module) -> dict[str, int]:
    """Return how many parameters have a gradient of each dtype."""
    return dict(
        Counter(
            NO_GRADIENT if parameter.grad is None else str(parameter.grad.dtype).removeprefix("torch.")
            for parameter in model.parameters()
            if parameter.requires_grad
        )
    )


def rulings(device: DeviceType, how: How) -> Iterator[Ruling]:
    """Yield what a device's autocast makes of each operation in each 16-bit precision that the device has."""
    for precision in PRECISIONS:
        dtype = AUTOCAST.get(precision)
        if dtype is None or (how == "measured" and not has_precision(device, precision)):
            continue
        with autocast_of(device, precision, how), torch.no_grad():
            for operation in OPERATIONS:
                found = rule(operation, dtype, device)
                yield Ruling(operation=operation, device=device, precision=precision, how=how, dtype=found)


@contextmanager
def autocast_of(device: DeviceType, precision: Predicted, how: How) -> Iterator[None]:
    """Be under a device's autocast, on fake tensors where it is predicted."""
    if how == "measured":
        with autocast(precision, device):
            yield
    else:
        with FakeTensorMode(), cuda_autocast(AUTOCAST[precision]), CudaAttention():
            yield
