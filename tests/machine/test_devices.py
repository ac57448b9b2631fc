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
