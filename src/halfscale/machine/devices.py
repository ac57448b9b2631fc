"""The devices of this machine and what they can do. The one place that asks torch about hardware."""

import os
import platform
from functools import cache
from pathlib import Path
from typing import Literal

import torch

HALF_PRECISION_FEATURES = ("avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "asimdhp", "bf16", "sve")
"""The CPU flags, as Linux names them, that decide how FP16 and BF16 are computed."""


def has_cuda() -> bool:
    """Say whether there is a CUDA device that torch can use."""
    return torch.cuda.is_available()


def has_precision(device: Literal["cpu", "cuda"], precision: str) -> bool:
    """Say whether autocast or the matrix units of a device offer a precision, emulation on CUDA not counted."""
    match device, precision:
        case _, "fp32":
            return True
        case "cpu", "tf32":
            return False
        case "cpu", _:
            return torch.amp.is_autocast_available("cpu")
        case "cuda", "tf32":
            return torch.cuda.get_device_capability() >= (8, 0)
        case "cuda", "bf16":
            return torch.cuda.is_bf16_supported(including_emulation=False)
        case _:
            return True


def has_native_fp16(device: Literal["cpu", "cuda"]) -> bool:
    """Say whether the device multiplies FP16 matrices in hardware, in the backward pass too.

    A CPU does with AMX-FP16. AVX512-FP16 alone, which torch calls support, serves the forward pass: a convolution's
    backward pass then falls to oneDNN's reference kernels, a hundred times slower than FP32 (benchmarks/fp16_kernels.py).
    """
    return device == "cuda" or (bool(torch.ops.mkldnn._is_mkldnn_fp16_supported()) and "amx_fp16" in cpu_features())


def has_native_bf16(device: Literal["cpu", "cuda"]) -> bool:
    """Say whether the device multiplies BF16 matrices in hardware, as opposed to by emulation."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return any(feature in cpu_features() for feature in ("avx512_bf16", "amx_bf16", "bf16"))


def has_native(device: Literal["cpu", "cuda"], precision: str) -> bool:
    """Say whether the device multiplies matrices of a precision in hardware; of any but FP16 and BF16 it does."""
    asked = {"fp16": has_native_fp16, "bf16": has_native_bf16}.get(precision)
    return asked is None or asked(device)


def device_name(device: Literal["cpu", "cuda"]) -> str:
    """Return the device's name as it reports it."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return cpu_information().get("model name") or platform.processor() or platform.machine()


def cpu_capability() -> str:
    """Return the vector units that torch's own CPU kernels use, such as AVX512."""
    return torch.backends.cpu.get_cpu_capability()


def cpu_features() -> list[str]:
    """Return which of HALF_PRECISION_FEATURES this CPU has; none where the system does not say."""
    information = cpu_information()
    flags = (information.get("flags") or information.get("Features") or "").split()
    return [feature for feature in HALF_PRECISION_FEATURES if feature in flags]


@cache
def cpu_information() -> dict[str, str]:
    """Return the first processor's entry in /proc/cpuinfo, empty where there is none."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    pairs = (line.split(":", 1) for line in path.read_text().split("\n\n")[0].splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def be_deterministic(threads: int) -> None:
    """Make torch compute the same bits on every run: deterministic kernels, fixed thread count, no autotuning."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS sums in a fixed order only with this
    os.environ["ONEDNN_DEFAULT_FPMATH_MODE"] = "STRICT"  # else a CPU with AMX may compute FP32 products in BF16
    torch.use_deterministic_algorithms(True)
    # On by default with the above, and a tenth of a ResNet-50 step: every new tensor would be filled with NaN first, in
    # case that something reads what it did not write.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False  # autotuning may choose another algorithm each time
    torch.set_num_threads(threads)


def be_fast(threads: int) -> None:
    """Let torch take the fastest kernels, chosen by trial on CUDA: what is timed need not repeat to the bit."""
    os.environ["ONEDNN_DEFAULT_FPMATH_MODE"] = "STRICT"  # FP32 is to mean FP32 here too
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(threads)
