import pytest
import torch

from halfscale.machine import devices


@pytest.mark.parametrize(
    ("supported", "features", "native"),
    [
        (True, ["avx512_fp16", "amx_fp16"], True),
        (True, ["avx512_fp16", "amx_bf16"], False),  # the backward pass has no kernels for these units
        (False, [], False),
    ],
)
def test_a_cpu_is_native_in_fp16_if_both_passes_are(
    monkeypatch: pytest.MonkeyPatch, supported: bool, features: list[str], native: bool
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_fp16_supported", lambda: supported)
    monkeypatch.setattr(devices, "cpu_features", lambda: features)
    assert devices.has_native_fp16("cpu") is native
    assert devices.has_native_fp16("cuda")


@pytest.mark.parametrize(("features", "native"), [(["avx512_bf16"], True), (["amx_bf16"], True), ([], False)])
def test_a_cpu_is_native_in_bf16_by_its_units(
    monkeypatch: pytest.MonkeyPatch, features: list[str], native: bool
) -> None:
    monkeypatch.setattr(devices, "cpu_features", lambda: features)
    assert devices.has_native("cpu", "bf16") is native
    assert devices.has_native("cpu", "fp32")


def test_new_memory_is_not_filled() -> None:
    devices.be_deterministic(1)
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.utils.deterministic.fill_uninitialized_memory
