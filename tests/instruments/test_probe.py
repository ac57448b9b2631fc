"""The probe on nets whose windows are known, and what it leaves as it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from halfscale.analysis.predicted_skips import calibration_skips
from halfscale.analysis.probe import layer_table, window_table
from halfscale.analysis.windows import window_of
from halfscale.instruments.probe import probe, probe_length
from halfscale.instruments.train import train
from halfscale.study.arm import DynamicLossScaling
from halfscale.study.load import parse_study
from halfscale.study.probe import Probe, ProbeSpec
from halfscale.study.probings import ProbeRecord, read_probe
from halfscale.study.records import RecordError, read_trace
from halfscale.study.runs import plan_study

MakeProbe = Callable[..., ProbeSpec]


@pytest.fixture
def make_probe() -> MakeProbe:
    """A function from a workload's and the probe's settings to a spec."""

    def make(workload: dict[str, Any] | None = None, **settings: Any) -> ProbeSpec:
        tiny = {
            "name": "tiny",
            "model": "tiny_workloads:classifier",
            "data": "tiny_workloads:clouds",
            "batch_size": 8,
            "steps": 20,
            "optimizer": {"name": "sgd", "lr": 0.1},
            **(workload or {}),
        }
        study = {
            "study": "tiny",
            "seeds": [3],
            "workloads": [tiny],
            "arms": [{"name": "fp32", "precision": "fp32"}],
            "experiments": {"probe": settings},
        }
        return plan_study(parse_study(study, "test")).probe["tiny"]

    return make


def probed(spec: ProbeSpec, folder: Path) -> tuple[ProbeRecord, pd.DataFrame]:
    probe(spec, folder)
    return read_probe(folder, spec)


def test_the_window_of_a_unit_gradient_is_known_exactly(make_probe: MakeProbe, tmp_path: Path) -> None:
    """Its gradient is 1 and that of its output 1/2: from 2^-23, where the latter is FP16's smallest number, to 2^15."""
    unit = {"model": "tiny_workloads:unit", "data": "tiny_workloads:ones", "batch_size": 1}
    _, gradients = probed(make_probe(unit, at=[0], lowest=-30, highest=20, every=1), tmp_path)
    whole = gradients[(gradients["parameter"] == "") & (gradients["precision"] == "fp16")]
    assert window_of(whole) == (0.0, -23, 15, False, False)
    assert (gradients["largest"] == 1).all()
    flushed = whole.set_index("exponent")["flushed"]
    assert (flushed[-24], flushed[-23]) == (1, 0)


def test_the_largest_finite_scale_is_found_between_the_scales_that_were_asked_for(
    make_probe: MakeProbe, tmp_path: Path
) -> None:
    unit = {"model": "tiny_workloads:unit", "data": "tiny_workloads:ones", "batch_size": 1}
    _, gradients = probed(make_probe(unit, at=[0], lowest=-2, highest=22, every=4), tmp_path)
    whole = gradients[(gradients["parameter"] == "") & (gradients["precision"] == "fp16")]
    assert window_of(whole).high == 15
    assert sorted(whole["exponent"]) == [-2, 0, 2, 6, 10, 14, 15, 16, 18, 22]


@pytest.mark.parametrize(("accumulate", "bits"), [(1, 0), (4, 2), (16, 4)])
def test_gradients_accumulated_move_the_window_as_they_move_the_scale_that_training_settles_at(
    make_probe: MakeProbe, tmp_path: Path, accumulate: int, bits: int
) -> None:
    """Each micro-batch's loss is divided by their number, so that each gradient is as much smaller."""
    unit = {"model": "tiny_workloads:unit", "data": "tiny_workloads:ones", "batch_size": 1, "accumulate": accumulate}
    spec = make_probe({**unit, "optimizer": {"name": "sgd", "lr": 1e-6}}, at=[0], lowest=-30, highest=26, every=1)
    _, gradients = probed(spec, tmp_path / "probe")
    windows = window_table("unit", gradients)
    (window,) = windows.to_dict("records")
    assert (window["low"], window["high"]) == (-23 + bits, 15 + bits)
    assert (gradients["largest"] == 2.0**-bits).all()
    scaling = DynamicLossScaling(kind="dynamic", init_scale=2.0**24, growth_interval=1000)
    fp16 = spec.run.model_copy(update={"precision": "fp16", "loss_scaling": scaling})
    summary = train(fp16, tmp_path / "run")
    assert summary.final_scale == 2.0 ** window["high"]
    assert calibration_skips({"init_scale": 2.0**24, "backoff_factor": 0.5}, windows) == summary.skipped == 9 - bits


@pytest.mark.parametrize(("activation", "low", "high"), [("gelu", 7.5, 8.5), ("tanh", 7.5, 8.5), ("relu", 2.2, 4.2)])
def test_bf16_errs_eight_times_as_much_unless_gates_flip(
    make_probe: MakeProbe, tmp_path: Path, activation: str, low: float, high: float
) -> None:
    """8 = 2^3, the three mantissa bits between them; under ReLU rounding flips gates, and it is about the root of 8."""
    net = {
        "model": "tiny_workloads:deep",
        "model_args": {"activation": activation},
        "data": "tiny_workloads:clouds",
        "data_args": {"width": 256},
        "batch_size": 256,
    }
    _, gradients = probed(make_probe(net, at=[0], lowest=0, highest=16, every=4), tmp_path)
    (row,) = window_table("net", gradients).to_dict("records")
    assert low < row["bf16_error"] / row["plateau"] < high


def test_the_weights_are_those_of_the_references_run(make_probe: MakeProbe, tmp_path: Path) -> None:
    """The loss of the batch that comes next is the loss that the run's own trace has there, bit for bit."""
    spec = make_probe({"clip_norm": 0.5, "accumulate": 1}, at=[0, 0.25, 0.75], lowest=0, highest=4)
    record, _ = probed(spec, tmp_path / "probe")
    train(spec.run, tmp_path / "run")
    trace = read_trace(tmp_path / "run" / "trace.parquet", spec.run)
    assert spec.steps == [0, 5, 15]
    assert record.losses == [float(trace["loss"].iloc[step]) for step in spec.steps]


def test_looking_changes_no_buffer(make_probe: MakeProbe, tmp_path: Path) -> None:
    """A model that counts its own forward passes gives the same losses however many gradients were taken before."""
    rising = {"model": "tiny_workloads:rising"}
    few, _ = probed(make_probe(rising, at=[0, 1], lowest=0, highest=1, every=1), tmp_path / "few")
    many, _ = probed(make_probe(rising, at=[0, 0.5, 1], lowest=0, highest=12, every=1), tmp_path / "many")
    assert few.losses == [many.losses[0], many.losses[2]]


def test_every_format_and_scale_has_its_row_of_every_parameter(make_probe: MakeProbe, tmp_path: Path) -> None:
    spec = make_probe(at=[0, 1], lowest=0, highest=6)
    record, gradients = probed(spec, tmp_path)
    assert probe_length(spec) == 2 * (4 + 2)
    parameters = ["", "0.weight", "0.bias", "3.weight", "3.bias"]
    for (_, precision, _), own in gradients.groupby(["step", "precision", "exponent"], dropna=False):
        assert own["parameter"].tolist() == parameters
        if precision == "fp32":
            assert (own["error"] == 0).all()
            assert (own["flushed"] == 0).all()
    assert set(gradients["precision"]) == {"fp32", "bf16", "fp16"}
    assert [each.precision for each in record.effective] == ["fp32", "bf16", "fp16"]
    first = gradients[gradients["parameter"] == ""]
    assert (first["elements"] == 4 * 16 + 16 + 16 * 2 + 2).all()


def test_records_that_do_not_belong_together_are_refused(make_probe: MakeProbe, tmp_path: Path) -> None:
    spec = make_probe(at=[0], lowest=0, highest=2)
    probe(spec, tmp_path)
    with pytest.raises(RecordError, match="belongs to another spec"):
        read_probe(tmp_path, make_probe(at=[0], lowest=0, highest=4))
    path = tmp_path / "gradients.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordError, match=r"gradients\.parquet: is not what was written"):
        read_probe(tmp_path, spec)
    path.unlink()
    with pytest.raises(RecordError, match=r"gradients\.parquet: cannot be read"):
        read_probe(tmp_path, spec)


def test_dropout_drops_the_same_for_every_format_and_the_run_goes_on_as_if_nobody_had_looked(
    make_probe: MakeProbe, tmp_path: Path
) -> None:
    dropping = {"model_args": {"dropout": 0.5, "hidden": 64}}
    often, gradients = probed(make_probe(dropping, at=[0, 0.5, 1], lowest=0, highest=8, every=4), tmp_path / "often")
    once, _ = probed(make_probe(dropping, at=[1], lowest=0, highest=8, every=4), tmp_path / "once")
    assert often.losses[-1] == once.losses[-1]
    whole = gradients[(gradients["parameter"] == "") & (gradients["precision"] != "fp32")]
    assert (whole["error"] < 0.05).all()  # and not of the order of 1, as between two masks


def test_a_reference_that_diverged_is_a_result(make_probe: MakeProbe, tmp_path: Path) -> None:
    wild = {"optimizer": {"name": "sgd", "lr": 1e30}}
    record, gradients = probed(make_probe(wild, at=[0, 1], lowest=0, highest=8, every=4), tmp_path)
    assert record.losses[0] is not None
    assert record.losses[1] is None
    start, end = window_table("wild", gradients).to_dict("records")
    assert start["high"] >= 8
    assert pd.isna(end["low"])
    assert pd.isna(end["layers_bits"])


def test_parameters_without_gradient_or_without_elements_are_no_error(make_probe: MakeProbe, tmp_path: Path) -> None:
    odd = {"model": "tiny_workloads:odd"}
    _, gradients = probed(make_probe(odd, at=[0], lowest=0, highest=4), tmp_path)
    assert set(gradients["parameter"]) == {"", "head.weight", "head.bias", "unused", "only_in_fp32"}
    fp16 = gradients[(gradients["precision"] == "fp16") & (gradients["parameter"] == "only_in_fp32")]
    assert (fp16["flushed"] == 1).all()  # it is not zero in FP32, and zero in FP16


@pytest.mark.parametrize("loss_factor", [2.0**-126, 2.0**-100, 1.0, 2.0**100])
def test_at_the_ends_of_the_allowed_ranges_every_finite_gradient_has_an_error(
    make_probe: MakeProbe, tmp_path: Path, loss_factor: float
) -> None:
    """Where all of it is flushed to zero, that error is 1 exactly."""
    spec = make_probe({"loss_factor": loss_factor}, at=[0], lowest=-126, highest=126, every=21)
    _, gradients = probed(spec, tmp_path)
    assert np.isfinite(gradients["norm"]).all()
    has_gradient = ~gradients["overflow"] & (gradients["norm"] > 0)
    assert np.isfinite(gradients.loc[has_gradient, "error"]).all()
    gone = gradients[has_gradient & (gradients["flushed"] + gradients["true_zero"] == gradients["elements"])]
    assert len(gone)
    assert (gone["error"] == 1).all()
    assert gone["cosine"].isna().all()


def test_the_gradient_of_a_key_bias_is_noise_and_asks_for_no_window(make_probe: MakeProbe, tmp_path: Path) -> None:
    """Softmax does not see what a key's bias adds to every score alike: its gradient is zero but for rounding."""
    transformer = {
        "model": "transformer",
        "model_args": {"vocabulary": 8, "context": 16, "width": 32, "depth": 1, "heads": 2},
        "data": "markov",
        "data_args": {"vocabulary": 8, "context": 16, "evaluation_batches": 2},
    }
    _, gradients = probed(make_probe(transformer, at=[0], lowest=-8, highest=24, every=4), tmp_path)
    layers = layer_table("transformer", gradients).set_index("parameter")
    assert layers.index[layers["noise"]].tolist() == ["blocks.0.attention.key.bias"]
    assert pd.isna(layers.loc["blocks.0.attention.key.bias", "low"])
    (window,) = window_table("transformer", gradients).to_dict("records")
    assert (window["layers_noise"], window["layers_without"]) == (1, 0)
    assert window["layers_low"] == layers["low"].max()


def test_no_scaling_and_the_default_are_asked_about_whatever_the_grid() -> None:
    assert Probe(every=5).exponents == [-16, -11, -6, -1, 0, 4, 9, 14, 16, 19, 24]
    assert Probe(lowest=1, highest=9, every=4).exponents == [1, 5, 9]
