"""What was in effect during a run and where it ran, read back from torch and the machine."""

from typing import Literal

import torch
from torch.amp import GradScaler

from halfscale.machine import devices, provenance
from halfscale.numerics.precision import (
    Backend,
    DeviceType,
    Precision,
    UnavailableError,
    autocast_dtype_in_effect,
    get_tf32,
)
from halfscale.study.records import Effective, Environment


def describe_effective(
    device: DeviceType, precision: Precision, asked: Precision, backend: Backend, scaler: GradScaler, data: str
) -> Effective:
    """Return what torch says is in effect.

    Raises:
        UnavailableError: it is not what the precision's label says.
    """
    dtype = autocast_dtype_in_effect(precision, device)
    tf32_matmul, tf32_convolution = get_tf32()
    if {tf32_matmul, tf32_convolution} != {precision == "tf32"}:
        raise UnavailableError(
            f"precision = {precision!r}: TF32 is {tf32_matmul} for products, {tf32_convolution} for convolutions"
        )
    return Effective(
        device=device,
        precision=precision,
        fell_back=precision != asked,
        backend=backend,
        autocast_dtype=str(dtype).removeprefix("torch.") if dtype else None,
        scaler_enabled=scaler.is_enabled(),
        tf32_matmul=tf32_matmul,
        tf32_convolution=tf32_convolution,
        fp16_reduced_precision_reduction=torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        bf16_reduced_precision_reduction=torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        data=data,
    )


def describe_environment(device: Literal["cpu", "cuda"]) -> Environment:
    """Return the machine, the versions and the commit."""
    commit, clean = provenance.git_commit()
    return Environment(
        **provenance.versions("torch", "torchvision"),
        python=provenance.python_version(),
        platform=provenance.system(),
        device=devices.device_name(device),
        cpu_capability=devices.cpu_capability(),
        cpu_features=devices.cpu_features(),
        native_fp16=devices.has_native_fp16(device),
        native_bf16=devices.has_native_bf16(device),
        commit=commit,
        clean=clean,
    )
