"""The throughput instrument on a model of microseconds: what it does, in which order, and what it refuses."""

import gc
import json
import math
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from halfscale.analysis.throughput import throughput_table
from halfscale.errors import UserError
from halfscale.instruments import attained
from halfscale.instruments import throughput as module
from halfscale.instruments.clock import HostClock
from halfscale.instruments.throughput import is_steady, take_turn, throughput, warm_up
from halfscale.instruments.timed_step import Prepared, prepare_variant, settle
from halfscale.numerics.precision import get_tf32
from halfscale.study.load import parse_study
from halfscale.study.records import RecordError
from halfscale.study.runs import plan_study
from halfscale.study.throughput import ThroughputSpec
from halfscale.study.timings import read_throughput
from halfscale.workloads.batch import Batch
from halfscale.workloads.registry import build_data

MakeTiming = Callable[..., ThroughputSpec]


@pytest.fixture(autouse=True)
def small_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products and copies of a moment: what they attain is not asked here."""
    monkeypatch.setattr(attained, "LARGEST_GEMM", attained.SMALLEST_GEMM)
    monkeypatch.setitem(attained.COPY_BYTES, "cpu", 2**16)


@pytest.fixture
def make_timing() -> MakeTiming:
    """A function from the levels to a spec of three blocks of five steps."""

    def make(workload: dict[str, Any] | None = None, levels: dict[str, Any] | None = None, **settings: Any) -> Any:
        tiny = {
            "name": "tiny",
            "model": "tiny_workloads:classifier",
            "data": "tiny_workloads:clouds",
            "batch_size": 8,
            "steps": 20,
            "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
            **(workload or {}),
        }
        timing = {"blocks": 3, "steps": 5, "threads": 1, "emulated": True, "levels": levels or {}, **settings}
        study = {
            "study": "tiny",
            "seeds": [3],
            "workloads": [tiny],
            "arms": [{"name": "fp32", "precision": "fp32"}],
            "experiments": {"throughput": timing},
        }
        return plan_study(parse_study(study, "test")).throughput["tiny"]

    return make


def prepare(spec: ThroughputSpec, index: int = 0) -> Prepared:
    data = build_data(spec.data, spec.seed, spec.data_args)
    return prepare_variant(spec, spec.variants[index], data, "cpu")


def test_every_block_times_every_variant_once_in_an_order_of_its_own(make_timing: MakeTiming, tmp_path: Path) -> None:
    levels = {"precision": ["fp32", "bf16"], "fused": [False, True], "batch_size": [4, 8]}
    spec = make_timing(levels=levels, blocks=6)
    turns: list[int] = []
    throughput(spec, tmp_path, turns.append)
    record, steps = read_throughput(tmp_path, spec)
    assert turns == list(range(1, 6 * 8 + 1))
    names = {variant.name for variant in spec.variants}
    orders = [tuple(block.sort_values("position")["variant"].drop_duplicates()) for _, block in steps.groupby("block")]
    assert all(set(order) == names and len(order) == 8 for order in orders)
    assert len(set(orders)) > 1
    fixed = steps[~steps["loader"]].groupby(["variant", "block"]).size()
    loaded = steps[steps["loader"]].groupby(["variant", "block"]).size()
    assert set(fixed) == {5}
    assert set(loaded) == {1}
    assert all(timed.status == "timed" and timed.warmup >= 10 for timed in record.timed)
    assert record.targets_per_sample == 1
    # Layers of 4 x 16 and 16 x 2 weights, 2 FLOP each a sample: forward, then the weights' gradients, and the inputs'
    # of the second.
    assert record.flops == {"4": 2 * 4 * (96 + 96 + 32), "8": 2 * 8 * (96 + 96 + 32)}
    assert record.attained.gemm.keys() == {"fp32", "bf16"}
    assert record.attained.transfer == {}


def test_phases_are_parts_of_their_step(make_timing: MakeTiming) -> None:
    prepared = prepare(make_timing())
    for row in take_turn(prepared, HostClock(), 4, loader=False):
        assert row["seconds"] == pytest.approx(row["forward"] + row["backward"] + row["optimizer"])
        assert min(row["forward"], row["backward"], row["optimizer"]) > 0
    for row in take_turn(prepared, HostClock(), 4, loader=True):
        assert row["seconds"] > row["forward"] + row["backward"] + row["optimizer"]  # the batch was made within it


class Watched(HostClock):
    """A clock that writes down what it is asked for, and whether garbage was collected meanwhile."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.collecting: set[bool] = set()

    def mark(self) -> int:
        self.asked.append("mark")
        self.collecting.add(gc.isenabled())
        return super().mark()

    def wait(self) -> None:
        self.asked.append("wait")


@pytest.mark.parametrize("loader", [False, True])
def test_a_turn_waits_for_the_device_at_its_ends_alone(make_timing: MakeTiming, loader: bool) -> None:
    clock = Watched()
    take_turn(prepare(make_timing()), clock, 3, loader=loader)
    assert clock.asked == ["wait", *["mark"] * 3 * 5, "wait"]


def test_no_garbage_is_collected_within_a_block(make_timing: MakeTiming) -> None:
    spec, clock = make_timing(), Watched()
    list(module.take_blocks(spec, [prepare(spec)], clock, lambda turns: None))
    assert clock.collecting == {False}
    assert gc.isenabled()


def test_every_variant_is_timed_under_its_own_switches(
    make_timing: MakeTiming, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_timing(levels={"precision": ["tf32", "fp32"]})
    prepared = [prepare(spec, index) for index in range(2)]
    for each in prepared:
        warm_up(each, HostClock(), 2)
        assert get_tf32() == (each.variant.precision == "tf32",) * 2
    seen = set()
    monkeypatch.setattr(
        module, "take_turn", lambda each, *_, **__: seen.add((each.variant.precision, *get_tf32())) or []
    )
    list(module.take_blocks(spec, prepared, HostClock(), lambda turns: None))
    assert seen == {("tf32", True, True), ("fp32", False, False)}
    prepared[1].select()


def test_a_warm_up_goes_on_while_steps_overflow(make_timing: MakeTiming, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(make_timing())
    step, taken = prepared.step, []

    def overflowing(*arguments: Any) -> Any:
        taken.append(1)
        prepared.overflows += len(taken) <= 12
        return step(*arguments)

    monkeypatch.setattr(prepared, "step", overflowing)
    monkeypatch.setattr(module, "is_steady", lambda seconds: True)
    assert warm_up(prepared, HostClock(), 10) == (13, True)


def test_every_level_is_in_effect(make_timing: MakeTiming) -> None:
    """And in effect in that variant alone."""
    levels = {
        "precision": ["fp32"],
        "memory_format": ["contiguous", "channels_last"],
        "batch_size": [2, 4],
        "compile": [False, True],
        "fused": [False, True],
    }
    images = {"model": "convnet", "data": "digits", "optimizer": {"name": "adamw", "lr": 0.1}}
    spec = make_timing(images, levels=levels)
    assert len(spec.variants) == 16
    for index, variant in enumerate(spec.variants):
        prepared = prepare(spec, index)
        kernel = next(each for each in prepared.eager.parameters() if each.dim() == 4 and min(each.shape) > 1)
        for tensor in (kernel, prepared.fixed.inputs):
            last = tensor.is_contiguous(memory_format=torch.channels_last)
            assert last is (variant.memory_format == "channels_last")
        assert len(prepared.fixed.inputs) == len(prepared.next_batch().inputs) == variant.batch_size
        assert (prepared.model is not prepared.eager) is variant.compile
        assert bool(prepared.optimizer.param_groups[0]["fused"]) is variant.fused


def test_a_loader_that_sleeps_is_flagged(make_timing: MakeTiming, tmp_path: Path) -> None:
    spec = make_timing({"data": "tiny_workloads:slow_clouds"}, levels={"precision": ["fp32"]}, warmup=2)
    throughput(spec, tmp_path)
    (row,) = throughput_table(*read_throughput(tmp_path, spec)).to_dict("records")
    assert row["input_bound"]
    assert row["loader_ms"] >= 50
    assert row["step_ms"] < 50


def test_order_and_batches_depend_on_the_seed_alone(make_timing: MakeTiming, tmp_path: Path) -> None:
    spec = make_timing(levels={"precision": ["fp32", "bf16"], "fused": [False, True]})
    orders = []
    for name in ("one", "two"):
        throughput(spec, tmp_path / name)
        orders.append(read_throughput(tmp_path / name, spec)[1][["block", "position", "variant"]])
    assert orders[0].equals(orders[1])


def test_weights_stay_where_they_are(make_timing: MakeTiming) -> None:
    for optimizer in (
        {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
        {"name": "adamw", "lr": 0.1, "weight_decay": 0.1},
    ):
        prepared = prepare(make_timing(workload={"optimizer": optimizer}))
        before = [parameter.clone() for parameter in prepared.model.parameters()]
        for _ in range(3):
            prepared.step(HostClock())
        assert all(map(torch.equal, before, prepared.model.parameters()))
        assert all(parameter.grad is None for parameter in prepared.model.parameters())


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("optimizer", [{"name": "sgd", "lr": 0.1, "momentum": 0.9}, {"name": "adamw", "lr": 0.1}])
def test_a_renewed_variant_is_another_of_the_same(
    make_timing: MakeTiming, optimizer: dict[str, Any], fused: bool
) -> None:
    levels = {"precision": ["bf16"], "loss_scaling": [True], "fused": [fused]}
    spec = make_timing(workload={"model": "tiny_workloads:entangled", "optimizer": optimizer}, levels=levels)
    renewed, kept = (prepare(spec) for _ in range(2))
    for each in (renewed, kept):
        each.step(HostClock())
        each.scaler.update(2.0**7)
    old = {id(parameter) for parameter in renewed.eager.parameters()}
    renewed.renew(spec)
    assert renewed.model is renewed.eager
    assert old.isdisjoint(map(id, renewed.eager.parameters()))
    assert all(map(torch.equal, renewed.eager.parameters(), kept.eager.parameters()))
    assert renewed.scaler.state_dict() == kept.scaler.state_dict()
    renewed.step(HostClock())
    assert vars(renewed.optimizer).keys() == vars(kept.optimizer).keys()  # of a fused one, that it takes the scale
    renewed.optimizer.param_groups[0]["lr"] = 0.1  # so that the weights show what the optimizer works on
    renewed.step(HostClock())
    assert not any(map(torch.equal, renewed.eager.parameters(), kept.eager.parameters()))


def test_a_new_model_takes_one_step_before_those_that_are_timed(
    make_timing: MakeTiming, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_timing(steps=10)
    prepared = prepare(spec)
    done: list[str] = []
    renew, step = prepared.renew, prepared.step
    monkeypatch.setattr(prepared, "renew", lambda spec: done.append("new") or renew(spec))
    monkeypatch.setattr(prepared, "step", lambda *given: done.append("step") or step(*given))
    rows = list(module.take_blocks(spec, [prepared], HostClock(), lambda turns: None))
    assert len(rows) == 3 * (10 + 2)
    assert done == ["new", *["step"] * (1 + 10 + 2)] * 3


def test_the_fastest_kernels_and_the_threads_of_the_spec_are_taken(
    make_timing: MakeTiming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(module, "be_fast", asked.append)
    throughput(make_timing(threads=1), tmp_path / "one")
    throughput(make_timing(threads=None), tmp_path / "all")
    assert asked == [1, len(os.sched_getaffinity(0))]


def test_a_renewed_variant_still_counts_overflows(make_timing: MakeTiming) -> None:
    spec = make_timing(levels={"precision": ["fp16"], "loss_scaling": [True]})
    prepared = prepare(spec)
    prepared.renew(spec)
    prepared.step(HostClock())
    assert prepared.overflows.item() == 0
    with torch.no_grad():
        next(prepared.eager.parameters()).fill_(math.inf)
    prepared.step(HostClock())
    prepared.renew(spec)
    prepared.step(HostClock())
    assert prepared.overflows.item() == 1


def test_a_compiled_model_stays_with_its_code(make_timing: MakeTiming) -> None:
    spec = make_timing(levels={"precision": ["fp32"], "compile": [True]})
    prepared = prepare(spec)
    before = (prepared.eager, prepared.model, prepared.optimizer, prepared.scaler)
    prepared.renew(spec)
    assert all(map(operator.is_, (prepared.eager, prepared.model, prepared.optimizer, prepared.scaler), before))


def test_every_turn_begins_with_a_new_model(make_timing: MakeTiming, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make_timing()
    models = []
    monkeypatch.setattr(module, "take_turn", lambda each, *turn, **batch: models.append(each.eager) or [])
    list(module.take_blocks(spec, [prepare(spec)], HostClock(), lambda turns: None))
    assert [models.index(model) for model in models] == [0, 0, 2, 2, 4, 4]  # the loader's turn goes on with the same


def test_a_format_without_units_is_numerics_only(
    make_timing: MakeTiming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_native", lambda device, precision: precision == "fp32")
    spec = make_timing(levels={"precision": ["fp32", "fp16", "bf16", "tf32"]}, emulated=False)
    throughput(spec, tmp_path)
    record, steps = read_throughput(tmp_path, spec)
    assert [timed.status for timed in record.timed] == ["timed", "numerics only", "numerics only", "unavailable"]
    assert set(steps["variant"]) == {"fp32-contiguous-b8"}
    assert [timed.effective is None for timed in record.timed] == [False, True, True, True]


def test_an_emulated_format_is_timed_when_asked_for(make_timing: MakeTiming, tmp_path: Path) -> None:
    spec = make_timing(levels={"precision": ["fp16"], "loss_scaling": [True]})
    throughput(spec, tmp_path)
    (timed,) = read_throughput(tmp_path, spec)[0].timed
    assert timed.status == "timed"
    assert timed.effective is not None
    assert (timed.effective.backend, timed.effective.autocast_dtype) == ("native", "float16")
    assert timed.scale is not None


def test_the_scale_settles_before_the_first_block(make_timing: MakeTiming) -> None:
    """bf16 with a scaler at PyTorch's default 2^16 does not overflow: it settles there, and two bits are left."""
    prepared = prepare(make_timing(levels={"precision": ["bf16"], "loss_scaling": [True]}))
    for _ in range(3):
        prepared.step(HostClock())
    assert settle(prepared) == 2.0**14
    assert prepared.scaler.get_scale() == 2.0**14


def test_a_skipped_step_is_an_error_and_leaves_nothing(
    make_timing: MakeTiming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(prepared: Prepared) -> float:
        prepared.scaler.update(float("inf"))
        return 1.0

    monkeypatch.setattr(module, "settle", too_large)
    spec = make_timing(levels={"precision": ["bf16"], "loss_scaling": [True]})
    with pytest.raises(UserError, match=r"bf16-scaled-contiguous-b8: \d+ timed steps overflowed"):
        throughput(spec, tmp_path)
    assert not (tmp_path / "throughput.json").exists()


def test_where_nothing_can_be_timed_it_is_told(
    make_timing: MakeTiming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_native", lambda device, precision: precision != "fp16")
    with pytest.raises(UserError, match="workload 'tiny': none of its variants can be timed on this device"):
        throughput(make_timing(levels={"precision": ["fp16"]}, emulated=False), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_flop_that_are_not_known_are_null_and_make_no_rate(make_timing: MakeTiming, tmp_path: Path) -> None:
    workload = {
        "model": "tiny_workloads:recurrent",
        "data": "markov",
        "data_args": {"vocabulary": 8, "context": 4, "evaluation_batches": 1},
    }
    spec = make_timing(workload, levels={"precision": ["fp32"]})
    throughput(spec, tmp_path)
    assert json.loads((tmp_path / "throughput.json").read_text())["flops"] == {"8": None}
    (row,) = throughput_table(*read_throughput(tmp_path, spec)).to_dict("records")
    assert math.isnan(row["tflops"])
    assert math.isnan(row["share_of_gemm"])
    assert row["samples_per_second"] > 0


TOKENS = {"data": "markov", "data_args": {"vocabulary": 9, "context": 4, "evaluation_batches": 1}}


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ({"model": "tiny_workloads:recurrent", **TOKENS}, "the model raised IndexError"),
        ({"model": "tiny_workloads:classifier", **TOKENS}, "the model raised RuntimeError"),
        ({"model": "tiny_workloads:cut_off"}, "the model's output depends on no parameter that trains"),
        ({"model": "tiny_workloads:classifier", "model_args": {"freeze": "all"}}, "the model has no parameter with"),
        ({"data": "tiny_workloads:few_clouds"}, r"the data give targets \(5,\) where 8 samples are asked for"),
        ({"data": "tiny_workloads:ending_clouds"}, "OSError: no more samples"),  # in the first turn with the loader
    ],
)
def test_a_model_and_data_that_do_not_go_together_are_told_with_their_workload(
    make_timing: MakeTiming, tmp_path: Path, workload: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=f"^workload 'tiny': {told}"):
        throughput(make_timing(workload, levels={"precision": ["fp32"]}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_fp32_is_refused(make_timing: MakeTiming, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"parameter 0\.weight is float64"):
        throughput(make_timing(workload={"model": "tiny_workloads:double"}), tmp_path)


@pytest.mark.parametrize(
    ("seconds", "steady"),
    [
        ([1.0] * 10, True),
        ([1.0] * 5 + [1.019] * 5, True),
        ([1.0] * 5 + [1.021] * 5, False),
        ([9.0, 1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 9.0, 1.0, 1.0], True),  # medians, not means
    ],
)
def test_steady_is_a_median_of_five_within_two_percent(seconds: list[float], steady: bool) -> None:
    assert is_steady(seconds) is steady


def test_records_of_another_spec_or_cut_short_are_refused(make_timing: MakeTiming, tmp_path: Path) -> None:
    spec = make_timing(levels={"precision": ["fp32"]})
    throughput(spec, tmp_path)
    with pytest.raises(RecordError, match="belongs to another spec"):
        read_throughput(tmp_path, make_timing(levels={"precision": ["bf16"]}))
    steps, record = tmp_path / "steps.parquet", tmp_path / "throughput.json"
    whole = steps.read_bytes()
    steps.write_bytes(whole[:-1])
    with pytest.raises(RecordError, match=r"steps\.parquet: is not what was written with"):
        read_throughput(tmp_path, spec)
    steps.write_bytes(whole)
    text = record.read_text()
    record.write_text(text.replace('"targets_per_sample": 1', '"targets_per_sample": 2'))
    with pytest.raises(RecordError, match="is not what was written"):
        read_throughput(tmp_path, spec)
    record.write_text(text[:-10])
    with pytest.raises(RecordError, match="is no whole record"):
        read_throughput(tmp_path, spec)
    record.unlink()
    with pytest.raises(RecordError, match=r"throughput\.json: cannot be read"):
        read_throughput(tmp_path, spec)


class Scripted:
    """A clock whose marks are given: seconds at which each was taken."""

    def __init__(self, seconds: list[float]) -> None:
        self.marks = iter(seconds)

    def mark(self) -> float:
        return next(self.marks)

    def wait(self) -> None:
        pass

    def seconds(self, start: float, end: float) -> float:
        return end - start


def test_what_a_device_attains_is_its_fastest_repeat() -> None:
    """The median of a busy machine's repeats took a product of 128 rows for one of ten milliseconds."""
    marks = [0, 9, 10, 10.5, 11, 11.25, 12, 13, 14, 16, 17, 18]
    assert attained.least_seconds(lambda: None, Scripted(list(map(float, marks)))) == 0.25  # type: ignore[arg-type]


def test_what_a_device_attains_is_of_the_format_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second for a product of 128 rows, which is the largest here, for a copy of 64 KiB, and for a transfer."""
    seen: list[tuple[torch.dtype, bool]] = []

    def half_a_second(work: Any, clock: HostClock) -> float:
        operand = work.args[0]
        seen.append((operand.dtype, get_tf32()[0]))
        assert work.func is torch.mm or work.func.__self__.dtype is operand.dtype
        return 0.5

    monkeypatch.setattr(attained, "least_seconds", half_a_second)
    clock, images = HostClock(), Batch(torch.zeros(2, 3, 4, 4), torch.zeros(2, dtype=torch.int64), None)
    found = attained.measure_attained("cpu", ["fp32", "tf32", "fp16", "bf16"], images, clock)
    assert found.gemm == dict.fromkeys(["fp32", "tf32", "fp16", "bf16"], 2 * 128**3 / 0.5)
    float32, halves = torch.float32, [torch.float16, torch.bfloat16]
    assert seen[:4] == [(float32, False), (float32, True), *((dtype, False) for dtype in halves)]
    assert found.copy_bandwidth == 2 * 2**16 / 0.5  # read and written
    seen.clear()
    assert attained.transfer_seconds(images, clock, "cpu") == dict.fromkeys(["fp32", "fp16", "bf16"], 0.5)
    assert [dtype for dtype, _ in seen] == [float32, *halves]
    assert attained.transfer_seconds(images._replace(inputs=images.targets), clock, "cpu") == {"int64": 0.5}
