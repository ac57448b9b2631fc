"""FLOP against closed forms, and times that can be worked out by hand."""

from dataclasses import replace

import pytest
from torch.utils.flop_counter import FlopCounterMode

from halfscale.errors import UserError
from halfscale.instruments.count_flops import CPU_ATTENTION
from halfscale.instruments.roofline import roof, roofline
from halfscale.instruments.trace_step import Operation, trace_step
from halfscale.machine.peaks import DEVICES
from halfscale.study.predictions import RooflineRecord
from halfscale.study.roofline import RooflineCase, RooflineSpec
from halfscale.study.sealed import read_sealed
from halfscale.study.step import Step

BY_NAME = {device.name: device for device in DEVICES}
SGD = {"name": "sgd", "lr": 0.1}
RESNET50 = Step.model_validate(
    {
        "name": "resnet50",
        "model": "resnet50",
        "model_args": {"num_classes": 1000},
        "input": {"kind": "image", "size": 224},
        "optimizer": SGD,
    }
)


def gpt(depth, width, length, vocabulary):
    return {
        "name": "gpt",
        "model": "transformer",
        "model_args": {"vocabulary": vocabulary, "context": length, "width": width, "depth": depth, "heads": 4},
        "input": {"kind": "tokens", "length": length},
        "optimizer": SGD,
    }


def test_resnet50_takes_8_1784_gflop_forward_and_1_9711_times_that_backward():
    operations = trace_step(RESNET50, "fp32", "cpu", 1).operations
    forward = sum(operation.flops for operation in operations if "backward" not in operation.name)
    # The last layer is an addmm forward and two mm backward, which are no "backward" by name.
    last = 2 * 2048 * 1000
    forward -= 2 * last
    total = sum(operation.flops for operation in operations)
    assert f"{forward / 1e9:.4f}" == "8.1784"
    assert f"{(total - forward) / forward:.4f}" == "1.9711"
    first_layer = 2 * 64 * 3 * 7 * 7 * 112 * 112
    assert total - forward == 2 * forward - first_layer  # the images need no gradient


@pytest.mark.parametrize("accounting", ["cpu", "cuda"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("depth", "width", "length", "vocabulary", "batch"), [(2, 32, 16, 50, 3), (3, 64, 32, 100, 2)])
def test_a_gpt_takes_what_the_closed_form_says(accounting, precision, depth, width, length, vocabulary, batch):
    step = Step.model_validate(gpt(depth, width, length, vocabulary))
    counted = sum(operation.flops for operation in trace_step(step, precision, accounting, batch).operations)
    weights = 12 * depth * width**2 + vocabulary * width
    assert counted == 6 * weights * batch * length + 14 * batch * length**2 * width * depth


def test_bytes_are_those_of_every_operand_and_result():
    trace = trace_step(Step.model_validate(gpt(1, 32, 16, 50)), "fp32", "cuda", 3)
    # An update in place reads weights and gradients, and writes weights.
    (update,) = [operation for operation in trace.operations if operation.name == "aten._foreach_add_.List"]
    assert update.bytes == 3 * 4 * trace.parameters
    # Of 3 x 16 tokens from 32 numbers each to 50: with a bias forward, and the gradients of tokens and weights.
    last = [operation for operation in trace.operations if operation.flops == 2 * 48 * 32 * 50]
    product = 4 * (48 * 32 + 32 * 50 + 48 * 50)
    assert [operation.bytes for operation in last] == [product + 4 * 50, product, product]


def test_without_our_formulas_torch_counts_no_attention_on_a_cpu():
    known = FlopCounterMode(display=False).flop_registry
    assert [operation for operation in CPU_ATTENTION if operation in known] == []


def test_an_operation_takes_the_larger_of_its_flop_and_its_bytes():
    h100 = BY_NAME["H100"]
    product = Operation("mm", flops=67 * 10**12, bytes=8, half=False)
    copy = Operation("add", flops=0, bytes=3_350_000_000_000, half=False)
    found = roof([product, copy], [product, copy], h100, "fp32")
    assert (found.seconds, found.speedup, found.matrix_share, found.compute_bound) == (2.0, 1.0, 0.5, 0.5)
    assert found.amdahl == 1


def test_speedup_and_its_bound():
    h200 = BY_NAME["H200"]
    before = [Operation("mm", 67 * 10**12, 8, half=False), Operation("add", 0, 4_800_000_000_000, half=False)]
    after = [Operation("mm", 67 * 10**12, 4, half=True), Operation("add", 0, 2_400_000_000_000, half=True)]
    found = roof(before, after, h200, "bf16")
    peaks = 989.4 / 67
    assert found.speedup == pytest.approx(2 / (1 / peaks + 0.5), rel=1e-12)
    assert found.amdahl == pytest.approx(found.speedup, rel=1e-12)
    tf32 = roof(before, before, h200, "tf32")
    assert tf32.speedup == tf32.amdahl == pytest.approx(2 / (1 / (494.7 / 67) + 1), rel=1e-12)


def test_what_autocast_leaves_in_fp32_is_bound_by_fp32s_peak():
    h200 = BY_NAME["H200"]
    left = Operation("bmm", 67 * 10**12, 8, half=False)
    assert roof([left], [left], h200, "bf16").speedup == 1
    assert roof([left], [left], h200, "tf32").speedup == pytest.approx(494.7 / 67, rel=1e-12)


def test_a_product_bound_by_its_bytes_gains_two_where_the_peaks_gain_nothing():
    """As a BF16 device without faster units for it would: the bound must hold there too."""
    device = replace(BY_NAME["H200"], tflops={"fp32": 67, "bf16": 67})
    before = [Operation("mm", 8, 4_800_000_000_000, half=False)]
    after = [Operation("mm", 8, 2_400_000_000_000, half=True)]
    found = roof(before, after, device, "bf16")
    assert found.speedup == found.amdahl == 2


def test_the_record_has_a_row_for_every_device_and_precision_there_is(tmp_path):
    case = RooflineCase.model_validate({**gpt(1, 32, 16, 50), "batch_size": 4})
    spec = RooflineSpec(case=case)
    record = roofline(spec, tmp_path)
    assert read_sealed(tmp_path / "roofline.json", RooflineRecord, spec).roofs == record.roofs
    assert [(roof.device, roof.precision) for roof in record.roofs[:5]] == [
        ("V100", "fp32"),
        ("V100", "fp16"),
        ("A100", "fp32"),
        ("A100", "tf32"),
        ("A100", "bf16"),
    ]
    assert len(record.roofs) == 2 + 5 * 4
    assert all(roof.speedup == 1 for roof in record.roofs if roof.precision == "fp32")
    assert record.bytes["tf32"] == record.bytes["fp32"]
    assert record.bytes["fp16"] == record.bytes["bf16"]


def test_an_operation_without_a_formula_is_refused_by_name(tmp_path):
    case = {
        "name": "bilinear",
        "model": "tiny_workloads:multiplied",
        "input": {"kind": "image", "size": 2},
        "optimizer": SGD,
        "batch_size": 4,
    }
    with pytest.raises(UserError, match=r"^bilinear: aten\._trilinear\.default has no formula for its FLOP"):
        roofline(RooflineSpec(case=RooflineCase.model_validate(case)), tmp_path)
    assert list(tmp_path.iterdir()) == []
