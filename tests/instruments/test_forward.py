"""A model and data that do not fit each other are told in one line; code of the user's own keeps its traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from halfscale.instruments.forward import check_batch, check_classes, place
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.train import train
from halfscale.study.spec import RunSpec
from halfscale.workloads.batch import Batch

MakeSpec = Callable[..., RunSpec]

DIGITS = {"data": "digits", "data_args": {"image_size": 8}}
TOKENS = {"data": "markov", "data_args": {"vocabulary": 8, "context": 4}}
RESNET = {"model": "resnet50"}
TRANSFORMER = {"model": "transformer", "model_args": {"vocabulary": 8, "context": 4, "width": 8, "heads": 1}}


def arguments(workload: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return workload | {"model_args": workload.get("model_args", {}) | changes}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (arguments(RESNET, num_classes=3) | DIGITS, "the model gives 3 classes for targets up to 9; more classes"),
        (RESNET | TOKENS, r"the model raised RuntimeError on inputs \(8, 4\) int64 from 0 to 7: "),
        (TRANSFORMER | DIGITS, r"the model raised \w+ on inputs \(8, 3, 8, 8\) float32: "),
        (
            arguments(TRANSFORMER, vocabulary=4) | TOKENS,
            r"the model raised IndexError on inputs \(8, 4\) int64 from 0 ",
        ),
        (arguments(TRANSFORMER, context=2) | TOKENS, "sequences of 4 tokens do not fit a context of 2$"),
    ],
    ids=["too few classes", "image model on tokens", "token model on images", "too few tokens", "too short a context"],
)
def test_what_does_not_fit_is_told_in_one_line(
    make_spec: MakeSpec, tmp_path: Path, workload: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrainingError, match=message) as caught:
        train(make_spec(workload), tmp_path)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None  # or its traceback would be printed
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_the_users_own_keeps_its_traceback(make_spec: MakeSpec, tmp_path: Path) -> None:
    workload = {"model": "tiny_workloads:classifier", "model_args": {"width": 5}}
    with pytest.raises(
        TrainingError, match=r"the model raised RuntimeError on inputs \(8, 4\) float32: mat1"
    ) as caught:
        train(make_spec(workload), tmp_path)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_more_classes_than_targets_is_no_fault(make_spec: MakeSpec, tmp_path: Path) -> None:
    summary = train(make_spec(arguments(TRANSFORMER, vocabulary=9) | TOKENS | {"steps": 2}), tmp_path)
    assert summary.status == "completed"


def test_targets_are_looked_at_where_nobody_waits_for_them() -> None:
    with pytest.raises(TrainingError, match="the model gives 2 classes for targets up to 2"):
        check_classes(torch.tensor([0, 2]), 2)
    check_classes(torch.tensor([0, 1]), 2)
    check_classes(torch.empty(2, dtype=torch.int64, device="meta"), 2)  # on a device they are left alone


def test_a_target_below_zero_is_refused_but_for_what_the_loss_leaves_out() -> None:
    with pytest.raises(TrainingError, match="the data give a target of -1; allowed: 0 to 1, and -100 for"):
        check_classes(torch.tensor([-100, -1, 1]), 2)
    check_classes(torch.tensor([-100, 0, 1]), 2)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((torch.ones(2, 4), torch.zeros(2)), r"the data give a tuple; a halfscale\.workloads\.batch\.Batch is needed"),
        (Batch(torch.ones(2, 4), [0, 1], None), "the data give a list for targets; a tensor is needed"),
        (Batch(torch.ones(2, 4), torch.tensor([0, 1]), 0.5), "the data give a float for oracle_loss; a tensor"),
        (Batch(torch.ones(0, 4), torch.ones(0).long(), None), "the data give a batch without a target; one sample"),
    ],
    ids=["tuple", "list", "float", "empty"],
)
def test_what_is_no_batch_is_told_in_one_line(batch: Any, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        check_batch(batch)


def test_what_is_in_place_is_not_copied() -> None:
    batch = Batch(torch.randn(2, 3, 4, 4), torch.tensor([0, 1]), None)
    placed = place(batch, "cpu", "channels_last")
    assert placed.inputs.is_contiguous(memory_format=torch.channels_last)
    again = place(placed, "cpu", "channels_last")
    assert again.inputs.data_ptr() == placed.inputs.data_ptr()
    assert again.targets.data_ptr() == batch.targets.data_ptr()


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (
            {"model": "tiny_workloads:pair"},
            r"the model gives a tuple; a tensor of logits \(\.\.\., classes\) is needed",
        ),
        ({"model": "tiny_workloads:cut_off"}, "the model's output depends on no parameter that trains; is it detached"),
        (
            {"model": "tiny_workloads:cast", "model_args": {"dtype": "complex64"}},
            "the model gives complex64 logits; floating point is needed",
        ),
        ({"data": "tiny_workloads:short_clouds"}, "the data give int32 targets; int64 classes are needed"),
        ({"model": "tiny_workloads:sparse"}, r"a gradient is sparse; allowed: dense ones \(sparse=False\)"),
    ],
)
def test_what_cannot_be_trained_on_is_told_in_one_line(
    make_spec: MakeSpec, tmp_path: Path, workload: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        train(make_spec(workload), tmp_path)
    assert list(tmp_path.iterdir()) == []
