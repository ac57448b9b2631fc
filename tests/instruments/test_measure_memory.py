"""Measured memory: a fresh CPU process against the prediction, and CUDA's allocator by its documented figures."""

import pytest
import torch

from halfscale.instruments.measure_memory import (
    MeasurementError,
    Peaks,
    measure_memory,
    measure_on_cuda,
    take_steps,
)
from halfscale.instruments.predict_memory import predict_directly
from halfscale.numerics.precision import get_tf32, set_tf32
from halfscale.study.step import Step

MIB = 2**20
STEP = Step.model_validate(
    {
        "name": "small",
        "model": "transformer",
        "model_args": {"vocabulary": 64, "context": 64, "width": 128, "depth": 2, "heads": 4},
        "input": {"kind": "tokens", "length": 64},
        "optimizer": {"name": "adamw", "lr": 0.001},
    }
)


def test_a_fresh_process_takes_what_was_predicted_and_a_little_for_itself():
    predicted = predict_directly(STEP, "fp32", "cpu", 192).peak.total
    measured = measure_memory(STEP, "fp32", "cpu", 192)
    assert measured.allocated is None
    assert predicted > 200 * MIB
    assert 0 <= measured.peak - predicted < 60 * MIB


def test_a_model_that_cannot_be_built_is_told_with_its_case():
    broken = STEP.model_copy(update={"model_args": {**STEP.model_args, "width": 30}})
    with pytest.raises(MeasurementError, match=r"small: fp32 at batch size 1 on cpu: .*width 30 is not divisible"):
        measure_memory(broken, "fp32", "cpu", 1)


def test_fp32_is_strict_where_its_memory_is_measured():
    """By default CUDA's convolutions use TF32, whose workspaces are others."""
    set_tf32(True)
    take_steps(STEP, "fp32", "cpu", 1)
    assert get_tf32() == (False, False)


class Allocator:
    """Pretends to be a GPU's allocator."""

    def __init__(self, memory, held=0):
        self.memory, self.held, self.peak = memory, held, 10**12

    def reset(self):
        self.peak = self.held

    def take(self, size):
        if size > self.memory:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.peak = self.held + size

    def statistics(self):
        return {
            "requested_bytes.all.current": self.held,
            "allocated_bytes.all.current": self.held,
            "requested_bytes.all.peak": self.peak,
            "allocated_bytes.all.peak": self.peak + 512,
            "reserved_bytes.all.peak": 2 * self.peak,
            "num_alloc_retries": 0,
        }


def test_cuda_peaks_are_of_this_step_alone_and_each_in_its_own_column():
    allocator = Allocator(memory=10**6, held=100)
    measured = measure_on_cuda(lambda: allocator.take(1000), allocator.statistics, allocator.reset)
    assert measured == Peaks(peak=1000, allocated=1512, reserved=2200, retries=0)


def test_memory_that_is_not_enough_is_no_error():
    allocator = Allocator(memory=10**6)
    assert measure_on_cuda(lambda: allocator.take(10**7), allocator.statistics, allocator.reset) is None


def test_other_errors_are_errors():
    with pytest.raises(RuntimeError, match="illegal memory access"):
        measure_on_cuda(raise_another, Allocator(0).statistics, lambda: None)


def raise_another():
    raise RuntimeError("illegal memory access")


@pytest.mark.parametrize(
    "message",
    ["CUDA out of memory. Tried to allocate", "CUBLAS_STATUS_ALLOC_FAILED when", "GET was unable to find an engine to"],
)
def test_every_library_that_runs_out_of_memory_says_so_in_its_own_way(message: str) -> None:
    def run() -> None:
        raise RuntimeError(message)

    assert measure_on_cuda(run, Allocator(0).statistics, lambda: None) is None
