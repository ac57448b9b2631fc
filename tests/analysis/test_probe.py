"""From made-up gradients, whose windows are known, to tables, figures and text."""

import shutil
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from figure_checks import check_readable
from made_up_gradients import make_gradients, write_tables_of_a_probe
from matplotlib.text import Text

from halfscale.analysis import style
from halfscale.analysis.collect import collect, read_csv, write_csv
from halfscale.analysis.figures import operating_window, predicted_skips
from halfscale.analysis.macros import probe_values
from halfscale.analysis.predicted_flushed import COLUMNS as FLUSHED
from halfscale.analysis.predicted_skips import prediction_table
from halfscale.analysis.probe import computed_as_probed, layer_table, probe_tex, scale_table, window_table
from halfscale.analysis.prose.probe import probe
from halfscale.study.arm import Arm


@pytest.fixture
def gradients() -> pd.DataFrame:
    return make_gradients()


@pytest.fixture
def windows(gradients: pd.DataFrame) -> pd.DataFrame:
    return window_table("net", gradients)


def test_the_table_of_windows(windows: pd.DataFrame) -> None:
    start, end = windows.to_dict("records")
    assert (start["low"], start["high"], start["bits"], start["default_inside"]) == (0, 16, 16, True)
    assert (start["layers_low"], start["layers_high"], start["layers_bits"]) == (0, 16, 16)
    assert (end["low"], end["high"], end["bits"], end["default_inside"]) == (8, 12, 4, False)
    assert (end["layers_low"], end["layers_high"], end["layers_bits"]) == (16, 8, -8)
    assert start["true_zero"] == 0.1
    assert (start["flushed_unscaled"], end["flushed_unscaled"], end["flushed_default"]) == (0.0, 0.08, 0.0)
    assert r"$16$ to $8$" in probe_tex(windows)
    assert not windows[["low_open", "high_open", "layers_low_open", "layers_high_open"]].any(axis=None)


def test_open_ends_are_said(gradients: pd.DataFrame) -> None:
    """Of what has a window from 2^0 to 2^16, only scales from 2^4 to 2^12 were tried."""
    own = (gradients["step"] == 0) & gradients["exponent"].fillna(4).between(4, 12)
    table = window_table("net", gradients[own])
    (row,) = table.to_dict("records")
    assert (row["low"], row["low_open"], row["high"], row["high_open"]) == (4, True, 12, True)
    assert (row["layers_low_open"], row["layers_high_open"]) == (True, True)
    assert (row["crossover"], row["crossover_open"]) == (4, True)
    assert pd.isna(row["default_inside"])  # 2^16 lies above all that was tried, and may well lie inside
    assert r"$\leq4$ to $\geq12$ & $\geq8$ & $\leq4$ & $\leq4$ to $\geq12$ & $\geq8$" in probe_tex(table)
    text = probe(table, prediction_table(table, make_runs()), pd.DataFrame(columns=FLUSHED))
    assert r"\val{probe.net.0.low} or below to \val{probe.net.0.high} or above" in text
    assert r"\val{probe.net.0.bits} bits at least, as no scale beyond was tried" in text
    assert "is not known" in text
    assert "worse than BF16" not in text
    assert "predicts" not in text
    layers = layer_table("net", gradients[own])
    assert layers[["low_open", "high_open"]].all(axis=None)


@pytest.mark.parametrize(("init_scale", "skips"), [(2.0**24, None), (2.0**12, 0), (2.0**10, 0)])
def test_nothing_is_predicted_of_what_starts_above_an_open_end(
    gradients: pd.DataFrame, init_scale: float, skips: int | None
) -> None:
    windows = window_table("net", gradients[gradients["exponent"].fillna(4) <= 12])
    (row,) = prediction_table(windows, make_runs(init_scale=init_scale)).to_dict("records")
    assert pd.isna(row["predicted_skips"]) if skips is None else row["predicted_skips"] == skips
    ends = window_table("net", gradients[gradients["exponent"].fillna(4) <= 8])
    (row,) = prediction_table(ends, make_runs(init_scale=init_scale)).to_dict("records")
    assert pd.isna(row["predicted_scale"])


def spoilt(gradients: pd.DataFrame, parameter: str, fp16: float | None, bf16: float) -> pd.DataFrame:
    """Return the gradients with other errors of one parameter; none of FP16 is an overflow at every scale."""
    own = gradients["parameter"] == parameter
    half = own & (gradients["precision"] == "fp16")
    error = gradients["error"].mask(half, fp16).mask(own & (gradients["precision"] == "bf16"), bf16)
    return gradients.assign(error=error, overflow=gradients["overflow"] | (half & (fp16 is None)))


@pytest.mark.parametrize("fp16", [None, 1.0], ids=["finite at no scale", "flushed at all"])
def test_a_parameter_without_a_window_leaves_no_scale_that_serves_all(
    gradients: pd.DataFrame, fp16: float | None
) -> None:
    windows = window_table("net", spoilt(gradients, "first", fp16, 0.08))
    assert windows[["layers_low", "layers_high", "layers_bits"]].isna().all(axis=None)
    assert windows["layers_without"].tolist() == [1, 1]
    assert "& none & -- &" in probe_tex(windows)
    text = probe(windows, prediction_table(windows, make_runs()), pd.DataFrame(columns=FLUSHED))
    assert "no scale in common: no single one serves all" in text
    assert "FP16's gradient of one parameter finite and better than one of zeros" in text


def test_a_gradient_that_is_noise_is_counted_and_takes_no_part(gradients: pd.DataFrame) -> None:
    noisy = spoilt(gradients, "first", 40.0, 300.0)
    layers = layer_table("net", noisy)
    assert layers.loc[layers["noise"], "parameter"].tolist() == ["first", "first"]
    assert layers.loc[layers["noise"], "low"].isna().all()
    windows = window_table("net", noisy)
    assert windows["layers_noise"].tolist() == [1, 1]
    assert windows[["layers_low", "layers_high"]].to_numpy().tolist() == [[0, 20], [16, 20]]  # those of `second`
    text = probe(windows, prediction_table(windows, make_runs()), pd.DataFrame(columns=FLUSHED))
    assert "This leaves out one parameter whose gradient is rounding noise" in text


@pytest.mark.parametrize(
    ("settings", "alike"),
    [
        ({}, True),
        ({"perturb": "ulp"}, True),
        ({"fp32_modules": ["head"]}, False),
        ({"layer_scales": {"head": 0.5}}, False),
        ({"inject": {"kind": "inf_gradient", "steps": [3]}}, False),
    ],
)
def test_arms_whose_gradients_are_not_those_that_were_probed(settings: dict[str, object], alike: bool) -> None:
    assert computed_as_probed(Arm.model_validate({"name": "fp16", "precision": "fp16", **settings})) == alike


def test_a_parameter_without_gradient_has_no_window(gradients: pd.DataFrame) -> None:
    still = gradients.assign(norm=gradients["norm"].where(gradients["parameter"] != "first", 0.0))
    assert set(layer_table("net", still)["parameter"]) == {"second"}


def make_runs(**changes: object) -> pd.DataFrame:
    run = {
        "workload": "net",
        "arm": "fp16",
        "seed": 0,
        "precision": "fp16",
        "loss_scaling": "dynamic",
        "status": "completed",
        "steps": 10,
        "init_scale": 2.0**24,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "skipped_calibration": 8,
        "final_scale": 2.0**13,
    }
    return pd.DataFrame([run | changes])


@pytest.mark.parametrize(
    ("init_scale", "backoff_factor", "skips"),
    [
        (2.0**24, 0.5, 8),
        (2.0**24, 0.25, 4),
        (2.0**23, 0.25, 4),
        (2.0**16, 0.5, 0),
        (1.0, 0.5, 0),
        (3 * 2.0**15, 0.5, 1),
    ],
)
def test_calibration_takes_the_steps_down_into_the_window(
    windows: pd.DataFrame, init_scale: float, backoff_factor: float, skips: int
) -> None:
    runs = make_runs(init_scale=init_scale, backoff_factor=backoff_factor)
    assert prediction_table(windows, runs)["predicted_skips"].tolist() == [skips]


def test_what_is_predicted_stands_beside_what_was_seen(windows: pd.DataFrame) -> None:
    (row,) = prediction_table(windows, make_runs()).to_dict("records")
    assert (row["predicted_skips"], row["skips"]) == (8, 8)
    assert (row["predicted_scale"], row["scale"], row["growth"]) == (12, 13.0, 1.0)


@pytest.mark.parametrize(
    "changes", [{"precision": "bf16"}, {"loss_scaling": "static"}, {"status": "diverged"}, {"workload": "other"}]
)
def test_runs_that_no_window_is_about_are_left_out(windows: pd.DataFrame, changes: dict[str, object]) -> None:
    assert prediction_table(windows, make_runs(**changes)).empty


def test_the_windows_are_drawn(gradients: pd.DataFrame, windows: pd.DataFrame, tmp_path: Path) -> None:
    write_csv(tmp_path / "tables/probe.csv", windows)
    write_csv(tmp_path / "tables/probe_scales.csv", scale_table("net", gradients))
    write_csv(tmp_path / "tables/probe_layers.csv", layer_table("net", gradients))
    with mpl.rc_context(style.RC):
        figure = operating_window.draw(tmp_path)
        figure.draw_without_rendering()
        check_readable(figure)
    error, flushed, _ = figure.axes
    assert list(error.lines[0].get_xdata()) == [-4, 0, 4, 8, 12, 16]  # and not where it overflows
    assert list(flushed.lines[0].get_ydata()) == [4, 0, 0, 0, 0, 0]
    assert "relative error" in [text.get_text() for text in figure.findobj(Text)]


@pytest.mark.parametrize("error", [0.0, float("nan")], ids=["exact", "nothing finite"])
def test_windows_without_an_error_are_drawn(gradients: pd.DataFrame, tmp_path: Path, error: float) -> None:
    gradients = gradients.assign(error=error, overflow=error != error)
    write_csv(tmp_path / "tables/probe.csv", window_table("net", gradients))
    write_csv(tmp_path / "tables/probe_scales.csv", scale_table("net", gradients))
    write_csv(tmp_path / "tables/probe_layers.csv", layer_table("net", gradients))
    with mpl.rc_context(style.RC):
        figure = operating_window.draw(tmp_path)
        figure.draw_without_rendering()
    assert figure.axes[0].get_yscale() == "linear"


def test_predicted_skips_are_drawn_beside_those_of_the_runs(finished_study: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished_study, tmp_path / "study"))
    collect(folder)
    write_tables_of_a_probe(folder)
    with mpl.rc_context(style.RC):
        figure = predicted_skips.draw(folder)
        figure.draw_without_rendering()
        check_readable(figure)
    rings = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "o"]
    table = read_csv(folder / "tables/predicted_skips.csv")
    of_first = table[table["workload"] == "resnet50"].drop_duplicates("arm")
    assert rings == of_first["predicted_skips"].tolist()
    assert 8 in rings  # from 2^24 to 2^16


def test_a_study_without_dynamic_arms_has_an_empty_figure(finished_study: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished_study, tmp_path / "study"))
    collect(folder)
    write_tables_of_a_probe(folder)
    table = read_csv(folder / "tables/predicted_skips.csv")
    write_csv(folder / "tables/predicted_skips.csv", table[:0])
    with mpl.rc_context(style.RC):
        figure = predicted_skips.draw(folder)
    assert "no data" in [text.get_text() for text in figure.findobj(Text)]


def test_the_text_says_what_the_tables_say_and_every_number_of_it_is_a_macro(windows: pd.DataFrame) -> None:
    predictions = prediction_table(windows, make_runs())
    flushed = pd.DataFrame([("net", "fp16", 16, 1000, 0.25, 0.26)], columns=FLUSHED)
    text = probe(windows, predictions, flushed)
    assert r"At its initial weights the window reaches from \val{probe.net.0.low} to \val{probe.net.0.high}" in text
    assert "lies inside once, above it once" in text
    assert "BF16 errs 8.0 times as much as FP16 inside it" in text
    assert "have no scale in common once of two" in text
    assert "exactly in one and to one step in one" in text
    keys = [part.split("}")[0] for part in text.split(r"\val{")[1:]]
    values = dict(probe_values(windows))
    assert set(keys) <= values.keys()
    assert (values["probe.net.0.low"], values["probe.net.10.high"], values["probe.net.10.bits"]) == (
        "$2^{0}$",
        "$2^{12}$",
        "$4$",
    )
