"""The precision of a run: what is asked of torch, and what is then really in effect."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

from halfscale.errors import UserError
from halfscale.machine.devices import has_cuda, has_native, has_precision
from halfscale.numerics.upcast import Upcast

DeviceType = Literal["cpu", "cuda"]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]
Backend = Literal["native", "upcast"]

AUTOCAST: dict[str, torch.dtype] = {"fp16": torch.float16, "bf16": torch.bfloat16}


class UnavailableError(UserError, RuntimeError):
    """A device or a precision that is not to be had, or that is not what its label says."""


def choose_device(asked: Literal["auto", "cpu", "cuda"]) -> DeviceType:
    """Return the device type to run on; auto is CUDA where there is one.

    Raises:
        UnavailableError: cuda was asked for and there is none.
    """
    if asked == "cuda" and not has_cuda():
        raise UnavailableError("device = 'cuda': torch finds no CUDA device here; allowed: cpu, auto")
    return "cuda" if asked != "cpu" and has_cuda() else "cpu"


def choose_precision(asked: Precision, fallback: Literal["none", "fp32"], device: DeviceType) -> Precision:
    """Return the precision to run in: the one asked for, or fp32 where that is the fallback and must be.

    Raises:
        UnavailableError: the device has no such precision and there is no fallback.
    """
    if has_precision(device, asked):
        return asked
    if fallback == "fp32":
        return "fp32"
    raise UnavailableError(
        f"precision = {asked!r}: not to be had on this device ({device}); allowed: another, or fallback: fp32"
    )


def choose_backend(asked: Literal["auto", "native", "upcast"], device: DeviceType, precision: Precision) -> Backend:
    """Return how a precision's products are computed: on a CPU those of 16 bits as asked, auto by what the CPU has."""
    if device == "cuda" or precision not in AUTOCAST:
        return "native"
    if asked == "auto":
        return "native" if has_native(device, precision) else "upcast"
    return asked


def autocast(precision: Precision, device: DeviceType) -> torch.autocast:
    """Return the autocast context of a precision, a disabled one for fp32 and tf32.

    A context made anew for each step also drops the weight cache, so that no cast outlives the weights it copied.
    """
    dtype = AUTOCAST.get(precision)
    return torch.autocast(device, dtype=dtype, enabled=dtype is not None)


def arithmetic(precision: Precision, backend: Backend) -> AbstractContextManager:
    """Return the context in which forward and backward passes run: that of the upcast backend, if chosen."""
    return Upcast(AUTOCAST[precision]) if backend == "upcast" else nullcontext()


def set_tf32(enabled: bool) -> None:
    """Set both TF32 switches of CUDA, and turn the like of it off on a CPU.

    By default CUDA's convolutions use TF32 and its matrix products do not.
    """
    for kernels in (torch.backends.mkldnn.matmul, torch.backends.mkldnn.conv, torch.backends.mkldnn.rnn):  # type: ignore[attr-defined]
        kernels.fp32_precision = "ieee"
    mode = "tf32" if enabled else "ieee"
    torch.backends.cudnn.conv.fp32_precision = mode  # type: ignore[attr-defined]
    torch.backends.cudnn.rnn.fp32_precision = mode  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.fp32_precision = mode


def set_reduced_precision_reduction(allowed: bool) -> None:
    """Set whether CUDA may sum parts of a 16-bit matrix product in 16 bits, for FP16 and BF16 alike.

    By default it may.
    """
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = allowed
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = allowed


def get_tf32() -> tuple[bool, bool]:
    """Return whether matrix products and convolutions use TF32, as torch has it."""
    matmul = torch.backends.cuda.matmul.fp32_precision
    convolution = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    return matmul == "tf32", convolution == "tf32"


def autocast_dtype_in_effect(precision: Precision, device: DeviceType) -> torch.dtype | None:
    """Return the dtype in which a matrix product really comes out under a precision's autocast; None if it is off.

    Raises:
        UnavailableError: it is not the precision's own, as when autocast disabled itself.
    """
    expected = AUTOCAST.get(precision, torch.float32)
    with autocast(precision, device), torch.no_grad():
        one = torch.ones(1, 1, device=device)
        product = torch.mm(one, one).dtype
        enabled = torch.is_autocast_enabled(device)
    if product is not expected or enabled is not (precision in AUTOCAST):
        raise UnavailableError(
            f"precision = {precision!r}: matrix products on {device} come out as {product}; autocast is off"
        )
    return expected if enabled else None
