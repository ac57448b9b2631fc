"""The memory instrument: what it predicts for whom, and a GPU that is pretended to hold so much."""

from pathlib import Path
from typing import Any

import pytest

from halfscale.instruments import memory as module
from halfscale.instruments.describe import describe_environment
from halfscale.instruments.measure_memory import MeasurementError, Peaks
from halfscale.instruments.memory import memory
from halfscale.instruments.predict_memory import memory_law
from halfscale.machine.peaks import DEVICES
from halfscale.study.memory import MemoryCase, MemorySpec
from halfscale.study.predictions import MemoryRecord
from halfscale.study.sealed import read_sealed

CASE = {
    "name": "tiny",
    "model": "transformer",
    "model_args": {"vocabulary": 64, "context": 16, "width": 32, "depth": 1, "heads": 2},
    "input": {"kind": "tokens", "length": 16},
    "optimizer": {"name": "adamw", "lr": 0.001},
    "batch_sizes": [1, 8],
    "precisions": ["fp32", "bf16"],
    "measure": [8],
    "search": True,
}
MOST = {"fp32": 37, "bf16": 50}
"""The largest batch that fits in the pretended GPU."""


class Pretended:
    """Measures without a process: each sample takes 1,000 bytes, and too many do not fit."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int]] = []

    def __call__(self, case: Any, precision: str, device: str, batch: int) -> Peaks | None:
        self.asked.append((precision, device, batch))
        return Peaks(1000 * batch, 1024 * batch, 2048 * batch, 0) if batch <= MOST[precision] else None


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    found = Pretended()
    monkeypatch.setattr(module, "measure_memory", found)
    return found


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, pretended: Pretended) -> Pretended:
    monkeypatch.setattr(module, "choose_device", lambda asked: "cuda")
    monkeypatch.setattr(module, "describe_environment", lambda device: describe_environment("cpu"))
    return pretended


def spec_of(**settings: Any) -> MemorySpec:
    return MemorySpec(case=MemoryCase.model_validate({**CASE, **settings}), device="auto")


def test_both_accountings_are_predicted_and_the_gpus_decides_what_fits(tmp_path: Path, pretended: Pretended) -> None:
    spec = MemorySpec(case=MemoryCase.model_validate(CASE), device="cpu")
    record = memory(spec, tmp_path)
    written = read_sealed(tmp_path / "memory.json", MemoryRecord, spec)
    assert (written.predictions, written.largest) == (record.predictions, record.largest)
    keys = [(each.accounting, each.precision, each.batch_size) for each in record.predictions]
    assert keys == [(on, precision, b) for on in ("cpu", "cuda") for precision in ("fp32", "bf16") for b in (1, 8)]
    for found in record.largest:
        device = next(each for each in DEVICES if each.name == found.device)
        law = memory_law(spec.case, found.precision, "cuda")
        assert law.peak(found.batch_size) <= device.memory * 2**30 < law.peak(found.batch_size + 1)
    assert len(record.largest) == 6 * 2 - 1  # V100 has no BF16
    assert pretended.asked == [("fp32", "cpu", 8), ("bf16", "cpu", 8)]
    assert record.searched == {}  # where there is no GPU


def test_on_a_gpu_the_largest_batch_is_searched_for_and_its_columns_are_kept(tmp_path: Path, gpu: Pretended) -> None:
    record = memory(spec_of(), tmp_path)
    assert record.searched == MOST
    predicted = {
        each.precision: each for each in record.predictions if (each.accounting, each.batch_size) == ("cuda", 8)
    }
    for found in record.measurements:
        assert (found.device, found.batch_size) == ("cuda", 8)
        assert (found.peak, found.allocated, found.reserved, found.retries) == (8000, 8192, 16384, 0)
        assert found.predicted == predicted[found.precision].peak.total
    assert len(record.measurements) == 2


def test_a_batch_that_is_to_be_measured_and_does_not_fit_is_told(tmp_path: Path, gpu: Pretended) -> None:
    with pytest.raises(MeasurementError, match=r"^tiny: fp32 at batch size 64 does not fit in this device"):
        memory(spec_of(batch_sizes=[64], measure=[64]), tmp_path)
    assert list(tmp_path.iterdir()) == []
