"""The telemetry's own numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from halfscale.instruments.norms import norms_and_largest, norms_of, total_norm
from halfscale.instruments.telemetry import FLUSH, Buffers
from halfscale.instruments.train import accumulate_gradients, parameters, prepare, take_step
from halfscale.study.spec import RunSpec

MakeSpec = Callable[..., RunSpec]


@pytest.mark.parametrize(
    "gradient",
    [
        torch.randn(7, 5),
        torch.randn(7, 5).t(),
        torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.randn(2, 3, 4, 4)[:, :, 1:, ::2],
        torch.tensor(-3.0),
        torch.tensor([1.0, -torch.inf]),
    ],
    ids=["matrix", "transposed", "channels_last", "strided", "scalar", "infinite"],
)
def test_largest_is_the_maximum_norm(gradient: Tensor) -> None:
    tensors = [torch.zeros(3), gradient, torch.zeros(0)]
    norms, largest = norms_and_largest(tensors)
    assert largest.item() == gradient.abs().max().item()
    assert norms.tolist() == norms_of(tensors).tolist()  # a sampled step's norms are those of any other step


def test_total_norm_is_torchs_own() -> None:
    tensors = [torch.randn(7, 5), torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last), torch.tensor(-3.0)]
    assert total_norm(norms_of(tensors)).item() == get_total_norm(tensors).item()
    for bad in (torch.inf, torch.nan):
        assert not total_norm(norms_of([*tensors, torch.tensor([1.0, bad])])).isfinite()


class Held(nn.Module):
    """Buffers of several kinds."""

    def __init__(self, **buffers: Tensor) -> None:
        super().__init__()
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
def test_a_buffer_that_is_not_finite_is_named(bad: float) -> None:
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    model = Held(
        large=torch.tensor([3.4e38, -3.4e38]), mask=torch.tensor([torch.inf]), image=image, count=torch.tensor(3)
    )
    buffers = Buffers(model, "cpu")
    seen = buffers.times_zero()
    assert seen.total.item() == 0.0
    assert buffers.first_nonfinite(seen) is None
    assert model.large.abs().min() > 3e38  # and is left as it is
    image[1, 2, 3, 3] = bad
    seen = buffers.times_zero()
    image[1, 2, 3, 3] = 0.0  # what comes later does not matter
    assert seen.total.isnan()
    assert buffers.first_nonfinite(seen) == "image"


def test_a_buffer_in_the_place_of_another_is_seen() -> None:
    model = Held(average=torch.zeros(3), wave=torch.zeros(2, dtype=torch.complex64), gone=torch.zeros(1))
    buffers = Buffers(model, "cpu")
    model.wave, model.gone = torch.tensor([0j, complex(0, torch.inf)]), None
    assert buffers.first_nonfinite(buffers.times_zero()) == "wave"
    model.average = torch.full((3,), torch.nan)
    assert buffers.first_nonfinite(buffers.times_zero()) == "average"


def test_a_model_without_buffers_has_none_that_is_bad() -> None:
    buffers = Buffers(nn.Linear(2, 2), "cpu")
    seen = buffers.times_zero()
    assert (seen.total.item(), buffers.first_nonfinite(seen)) == (0.0, None)


def test_largest_of_nan_is_nan() -> None:
    assert all(value.isnan().all() for value in norms_and_largest([torch.tensor([1.0, torch.nan])]))


def test_rows_wait_on_the_device_until_fetched(make_spec: MakeSpec) -> None:
    run = prepare(make_spec({"steps": 25}))
    due = []
    for step in range(25):
        due.append(take_step(run, step))
        if due[-1]:
            assert len(run.telemetry.fetch()) == FLUSH
    assert [step for step, is_due in enumerate(due) if is_due] == [9, 19]
    assert len(run.telemetry.rows) == 20
    assert len(run.telemetry.fetch()) == 5
    assert [row["step"] for row in run.telemetry.rows] == list(range(25))


def test_norm_and_maximum_are_those_of_the_unscaled_gradient(make_spec: MakeSpec) -> None:
    spec = make_spec(precision="fp16", loss_scaling={"kind": "static", "scale": 4096.0})
    run, twin = prepare(spec), prepare(spec)
    accumulate_gradients(twin, 0)
    gradient = torch.cat([parameter.grad.flatten() for parameter in parameters(twin)]) / 4096.0
    take_step(run, 0)
    row = run.telemetry.fetch()[0].row
    assert row["grad_norm"] == pytest.approx(torch.linalg.vector_norm(gradient).item(), rel=1e-6)
    assert row["grad_max"] == gradient.abs().max().item()


def test_the_maximum_is_sampled(make_spec: MakeSpec) -> None:
    run = prepare(make_spec({"sample_every": 7}))
    for step in range(8):
        if take_step(run, step):
            run.telemetry.fetch()
    run.telemetry.fetch()
    assert [row["step"] for row in run.telemetry.rows if row["grad_max"] is not None] == [0, 7]
