"""What autocast makes of outputs, against known answers and against torch's own lists of operations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from halfscale.analysis.output_dtypes import describe_output_dtypes, read_record
from halfscale.instruments.output_dtypes import output_dtypes, rulings
from halfscale.instruments.rule_operations import OPERATIONS
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.watch_outputs import watch_outputs
from halfscale.study.load import parse_study
from halfscale.study.output_dtypes import OutputDtypesSpec
from halfscale.study.passes import OutputDtypesRecord, Pass
from halfscale.study.records import RecordError
from halfscale.study.runs import plan_study
from halfscale.workloads.registry import build_model

Look = Callable[..., OutputDtypesRecord]
HALF = {"bf16": "bfloat16", "fp16": "float16"}

CUDA_HALF = {"linear", "matmul", "conv2d", "scaled_dot_product_attention"}
CUDA_FP32 = {"layer_norm", "group_norm", "softmax", "log_softmax", "exp", "pow", "sum", "mse_loss", "cross_entropy"}
CPU_HALF = {"linear", "matmul", "conv2d", "scaled_dot_product_attention"}
CPU_FP32 = {"mse_loss", "cross_entropy"}
"""The lists of the documentation of torch.amp, as far as they name what is ruled upon. What is on none keeps its format."""


def make_spec(model: str, data: str = "tiny_workloads:clouds", **settings: Any) -> OutputDtypesSpec:
    workload = {
        "name": "tiny",
        "model": model,
        "data": data,
        "batch_size": 8,
        "steps": 2,
        "optimizer": {"name": "sgd", "lr": 0.1},
        **settings,
    }
    study = {
        "study": "tiny",
        "seeds": [3],
        "workloads": [workload],
        "arms": [{"name": "fp32", "precision": "fp32"}],
        "experiments": {"output_dtypes": {}},
    }
    return plan_study(parse_study(study, "test")).output_dtypes["tiny"]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """A function from a model and its data to the record of its outputs."""

    def look_at(model: str, *data: str, **settings: Any) -> OutputDtypesRecord:
        return output_dtypes(make_spec(model, *data, **settings), tmp_path)

    return look_at


def passes_of(record: OutputDtypesRecord) -> dict[tuple[str, str], Pass]:
    return {(each.device, each.precision): each for each in record.passes}


def dtypes(each: Pass) -> list[tuple[str, str]]:
    """Kind and dtype of every output that is one tensor."""
    return [(output.kind, *output.dtypes) for output in each.outputs]


def test_norm_and_softmax_are_16_bit_on_a_cpu_and_fp32_on_cuda(look: Look) -> None:
    passes = passes_of(look("watched_models:norms"))
    kinds = ["Linear", "LayerNorm", "Linear", "Softmax", "Linear"]
    for precision, half in HALF.items():
        loss = ("cross_entropy", "float32")
        assert dtypes(passes["cpu", precision]) == [*((kind, half) for kind in kinds), loss]
        on_cuda = ["float32" if kind in ("LayerNorm", "Softmax") else half for kind in kinds]
        assert dtypes(passes["cuda", precision]) == [*zip(kinds, on_cuda, strict=True), loss]
    for device in ("cpu", "cuda"):
        assert {dtype for _, dtype in dtypes(passes[device, "fp32"])} == {"float32"}
    assert [each.how for each in passes.values()] == ["measured"] * 3 + ["predicted"] * 3


def test_gradients_are_fp32_in_every_precision_on_both_devices(look: Look) -> None:
    for each in look("watched_models:norms").passes:
        assert each.gradients == {"float32": 8}


def test_batch_norm_and_a_residual_addition_in_place_stay_16_bit_on_both(look: Look) -> None:
    passes = passes_of(look("watched_models:residual", "tiny_workloads:pictures", memory_format="channels_last"))
    for device in ("cpu", "cuda"):
        for precision, half in HALF.items():
            kinds = ["Conv2d", "BatchNorm2d", "add", "ReLU", "mean", "Linear"]
            assert dtypes(passes[device, precision]) == [
                *((kind, half) for kind in kinds),
                ("cross_entropy", "float32"),
            ]


def test_the_transformer_has_a_row_for_everything_it_computes(look: Look) -> None:
    """Two embeddings, their sum and its dropout; 14 a block; the last norm, the head, the loss. No view, no cast."""
    settings = {"vocabulary": 8, "context": 16}
    record = look("transformer", "markov", model_args={**settings, "depth": 3}, data_args=settings)
    block = ["Linear"] * 3 + ["scaled_dot_product_attention", "Linear", "Dropout", "add", "LayerNorm"]
    block += ["Linear", "gelu", "Linear", "Dropout", "add", "LayerNorm"]
    kinds = ["Embedding", "Embedding", "add", "Dropout", *block * 3, "LayerNorm", "Linear", "cross_entropy"]
    wide = {"Embedding", "add", "LayerNorm", "cross_entropy"}
    for each in record.passes:
        assert [output.kind for output in each.outputs] == kinds
        half = HALF.get(each.precision, "float32")
        assert each.outputs[3].dtypes == ["float32"]  # dropout of the embeddings
        for output in [*each.outputs[:3], *each.outputs[4:]]:
            assert output.dtypes == ["float32" if output.kind in wide else half], output
    functions = {output.kind for output in record.passes[0].outputs if output.function}
    assert functions == {"add", "scaled_dot_product_attention", "gelu", "cross_entropy"}


def test_fake_cuda_rules_as_torch_documents() -> None:
    for ruling in rulings("cuda", "predicted"):
        expected = "float32" if ruling.operation in CUDA_FP32 else HALF[ruling.precision]
        assert ruling.dtype == expected, ruling


def test_the_cpu_rules_as_torch_documents() -> None:
    for ruling in rulings("cpu", "measured"):
        expected = "float32" if ruling.operation in CPU_FP32 else HALF[ruling.precision]
        assert ruling.dtype == expected, ruling


def test_the_lists_are_those_that_torch_has_registered() -> None:
    """What is on a list has a kernel of its own under that device's autocast, and what is on none has not."""
    names = {"cross_entropy": "cross_entropy_loss", "softmax": "softmax.int", "log_softmax": "log_softmax.int"}
    names |= {"pow": "pow.Tensor_Scalar", "add": "add.Tensor"}
    for operation in OPERATIONS:
        for key, listed in (("AutocastCPU", CPU_HALF | CPU_FP32), ("AutocastCUDA", CUDA_HALF | CUDA_FP32)):
            # CUDA's list has the second half of cross-entropy, whose first is log_softmax.
            parts = names | ({"cross_entropy": "nll_loss"} if key == "AutocastCUDA" else {})
            name = f"aten::{parts.get(operation, operation)}"
            has = torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
            assert has is (operation in listed), (operation, key)


def test_outputs_of_every_kind_are_told_plainly(look: Look) -> None:
    record = look("watched_models:peculiar")
    for each in record.passes:
        half = HALF.get(each.precision, "float32")
        found = {(output.module, output.kind, output.call): output.dtypes for output in each.outputs}
        assert found["named", "Named", 1] == list(dict.fromkeys([half, "int64", "float32"]))
        assert found["text", "Text", 1] == []
        assert found["shared", "Linear", 1] == found["shared", "Linear", 2] == [half]
        assert found["", "sort", 1][-1] == "int64"
        assert each.never_called == ["spare.0", "spare.1"]
        assert found["pooling", "MaxPool1d", 1] == [half, "int64"]
        assert each.gradients == {"float32": 5, "none": 2}
        assert each.why == ""
    text = describe_output_dtypes("peculiar", record)
    assert "no tensor" in text
    assert "spare.0 spare.1" in text


def test_a_model_that_looks_at_values_is_measured_and_not_predicted(look: Look) -> None:
    record = look("watched_models:curious")
    assert [each.how for each in record.passes] == ["measured"] * 3 + ["unavailable"] * 3
    assert all(each.why.startswith("DataDependentOutputException: ") for each in record.passes[3:])
    assert all("\n" not in each.why for each in record.passes)
    assert "DataDependentOutputException" in describe_output_dtypes("curious", record)


@pytest.mark.skipif(torch.cuda.is_available(), reason="where there is a GPU its library can be asked")
def test_what_only_cudas_own_library_knows_is_measured_on_the_cpu_and_not_predicted(look: Look) -> None:
    record = look("watched_models:recurrent")
    assert [each.how for each in record.passes] == ["measured"] * 3 + ["unavailable"] * 3
    assert all(each.why for each in record.passes[3:])
    assert [output.kind for output in record.passes[2].outputs] == ["GRU", "Linear", "cross_entropy"]


def test_a_backward_pass_that_cannot_be_predicted_leaves_the_forward_pass(look: Look) -> None:
    passes = passes_of(look("watched_models:curious_backwards"))
    assert passes["cpu", "fp16"].gradients == {"float32": 2}
    predicted = passes["cuda", "fp16"]
    assert predicted.why.startswith("backward pass: ")
    assert predicted.gradients == {}
    assert dtypes(predicted)[0] == ("Linear", "float16")


def test_a_model_that_is_one_module(look: Look) -> None:
    for each in look("watched_models:bare").passes:
        assert (each.outputs[0].module, each.outputs[0].kind) == ("", "Linear")
        assert each.gradients == {"float32": 1}


def test_what_cannot_be_trained_is_an_error_by_name(look: Look) -> None:
    with pytest.raises(TrainingError, match="a tensor of logits"):
        look("tiny_workloads:pair")


def test_the_record_is_the_same_each_time_and_read_for_its_own_spec_alone(tmp_path: Path) -> None:
    spec = make_spec("watched_models:norms")
    first = output_dtypes(spec, tmp_path / "first")
    second = output_dtypes(spec, tmp_path / "second")
    assert (first.passes, first.rulings) == (second.passes, second.rulings)
    assert read_record(tmp_path / "first", spec).passes == first.passes
    with pytest.raises(RecordError, match="belongs to another spec"):
        read_record(tmp_path / "first", make_spec("watched_models:bare"))


def test_watching_changes_no_number_and_leaves_nothing_behind() -> None:
    torch.manual_seed(0)
    model, inputs = build_model("watched_models:norms", {}), torch.randn(2, 4)
    with torch.autocast("cpu", torch.float16):
        before = model(inputs)
        with watch_outputs(model) as watch:
            during = model(inputs)
    assert torch.equal(before, during)
    assert len(watch.outputs) == 5
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    model(inputs)
    assert len(watch.outputs) == 5


def test_views_copies_and_casts_are_no_rows() -> None:
    x = torch.randn(2, 3, 4)
    with watch_outputs(nn.Identity()) as watch:
        for same in (x.transpose(0, 1), x.flatten(), x.transpose(0, 1).reshape(-1), x.half(), x.to(torch.float64)):
            assert same.numel() == 24
        assert x[0].shape == (3, 4)
        assert torch.zeros_like(x).sum() == 0
        assert nn.functional.dropout(x, 0.5, training=False) is x
        assert x.argmax().dtype is torch.int64
    assert [output.kind for output in watch.outputs] == ["sum"]
