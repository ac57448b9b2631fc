"""The peaks of data sheets, and which device a reported name stands for."""

import pytest

from halfscale.machine.peaks import DEVICES, find_device


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
    ],
)
def test_the_names_that_torch_reports(reported, name):
    assert find_device(reported).name == name


@pytest.mark.parametrize(
    "reported",
    [
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA H100 PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA GH200 480GB",
        "NVIDIA GB200",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA H200 MIG 1g.18gb",
        "NVIDIA L4",
        "AMD EPYC",
        "",
    ],
)
def test_a_device_with_other_rates_is_none_of_them(reported):
    assert find_device(reported) is None


def test_ridges_of_the_table():
    halves = {device.name: device.ridge("bf16" if "bf16" in device.tflops else "fp16") for device in DEVICES}
    assert {name: round(ridge) for name, ridge in halves.items()} == {
        "V100": 139,
        "A100": 153,
        "H100": 295,
        "H200": 206,
        "B200": 281,
        "RTX 4090": 164,
    }


def test_what_a_device_has_no_units_for_is_not_there():
    by_name = {device.name: device for device in DEVICES}
    assert set(by_name["V100"].tflops) == {"fp32", "fp16"}
    assert set(by_name["A100"].tflops) == {"fp32", "tf32", "fp16", "bf16"}


def test_bf16_over_fp32_on_h200_is_14_8_and_over_tf32_2():
    h200 = find_device("NVIDIA H200")
    assert round(h200.tflops["bf16"] / h200.tflops["fp32"], 1) == 14.8
    assert h200.tflops["bf16"] / h200.tflops["tf32"] == 2


def test_memory_is_in_gib_and_a_little_less_than_the_data_sheet_s_number():
    sheets = {"V100": 16, "A100": 80, "H100": 80, "H200": 141, "B200": 180, "RTX 4090": 24}
    shares = {device.name: device.memory / sheets[device.name] for device in DEVICES}
    assert shares.keys() == sheets.keys()
    assert all(0.98 < share < 1 for share in shares.values())
