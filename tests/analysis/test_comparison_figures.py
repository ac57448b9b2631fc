"""The figures of equivalence, of survival and of learning rates show what their tables hold, and can be read."""

import shutil
from importlib import import_module

import made_up
import matplotlib as mpl
import numpy as np
import pytest
from figure_checks import EDGES, check_readable
from made_up import make_study_folder
from made_up_comparisons import EQUIVALENCE, RATES, make_equivalence, write_tables_of_comparisons
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.text import Text

from halfscale.analysis import style
from halfscale.analysis.collect import collect, read_csv, write_csv
from halfscale.analysis.survival import read_survival_table
from halfscale.analysis.tables import write_tables

NAMES = ["equivalence", "lr_sensitivity", "survival"]


def analysed(folder):
    collect(folder)
    write_tables(folder)
    write_tables_of_comparisons(folder)
    return folder


@pytest.fixture(scope="module")
def study(finished_study, tmp_path_factory):
    return analysed(shutil.copytree(finished_study, tmp_path_factory.mktemp("results") / "study"))


def draw(name, folder):
    """Return the figure, laid out, so that all that can warn has had its chance."""
    with mpl.rc_context(style.RC):
        figure = import_module(f"halfscale.analysis.figures.{name}").draw(folder)
        figure.draw_without_rendering()
    return figure


def texts(artist):
    return [text.get_text() for text in artist.findobj(Text) if text.get_visible() and text.get_text().strip()]


@pytest.fixture(scope="module")
def figures(study):
    return {name: draw(name, study) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_read(figures, name):
    check_readable(figures[name])


@pytest.mark.parametrize("name", NAMES)
def test_every_workload_has_its_units(figures, name):
    labels = {
        "equivalence": ["final training loss less that of fp32, same block (nats)"],
        "lr_sensitivity": ["peak learning rate", "final loss (nats)"],
        "survival": ["steps taken", "stable runs (%)"],
    }
    for label in labels[name]:
        assert texts(figures[name]).count(label) == 2


def test_the_forest_has_a_row_for_each_comparison_and_its_verdict(figures, study):
    table = make_equivalence(study)
    axes = figures["equivalence"].axes
    for ax, (_, own) in zip(axes, table.groupby("workload", sort=False), strict=True):
        assert [label.get_text() for label in ax.get_yticklabels()] == own["arm"].tolist()
        dots = [line for line in ax.get_lines() if line.get_marker() == "o"]
        np.testing.assert_array_equal([line.get_xdata()[0] for line in dots], own["gap"])
        ends = [
            line.get_xdata() for line in ax.get_lines() if len(line.get_xdata()) == 2 and line.get_ydata()[0] % 1 > 0.5
        ]
        np.testing.assert_array_equal(ends[: len(own)], own[["tost_low", "tost_high"]])
        verdicts = [text for text in texts(ax) if text in set(table["verdict"])]
        assert verdicts == own["verdict"].tolist()
    assert {"equivalent", "inconclusive", "not comparable"} <= set(table["verdict"])


def test_the_band_is_the_margin_and_the_triangles_what_is_in_reach(figures, study):
    own = make_equivalence(study).query("workload == 'transformer'")
    ax = figures["equivalence"].axes[1]
    bands = [artist for artist in ax.collections if isinstance(artist, FillBetweenPolyCollection)]
    assert len(bands) == len(own)
    corners = bands[0].get_paths()[0].vertices[:, 0]
    assert (corners.min(), corners.max()) == (-EQUIVALENCE.margin.nats, EQUIVALENCE.margin.nats)
    for marker, side in (("<", -1), (">", 1)):
        found = [line.get_xdata()[0] for line in ax.get_lines() if line.get_marker() == marker]
        np.testing.assert_allclose(found, side * own.loc[own["smallest_margin"] > 0, "smallest_margin"])


def test_a_curve_is_that_of_the_table_with_its_causes(figures, study):
    table = read_survival_table(study)
    ax = next(ax for ax in figures["survival"].axes if ax.get_title(loc="left") == "fp16-unscaled")
    own = table.query("workload == 'resnet50' and arm == 'fp16-unscaled'")
    curve, strokes = ax.get_lines()[:2]
    assert curve.get_drawstyle() == "steps-post"
    np.testing.assert_array_equal(curve.get_xdata(), own["steps"])
    np.testing.assert_allclose(curve.get_ydata(), 100 * own["surviving"])
    np.testing.assert_array_equal(strokes.get_xdata(), own.loc[own["censored"] > 0, "steps"])
    squares = [line for line in ax.get_lines() if line.get_marker() == "s" and len(line.get_xdata())]
    assert [line.get_xdata().tolist() for line in squares] == [[21.0]]


def test_arms_without_an_unstable_run_are_counted_in_the_caption(figures, study):
    table = read_survival_table(study)
    titles = [ax.get_title(loc="left") for ax in figures["survival"].axes]
    assert not {"fp32", "bf16"} & set(titles)
    for workload, own in table.groupby("workload"):
        arms = own["arm"].nunique()
        stable = int((own.groupby("arm")["surviving"].min() == 1).sum())
        assert f"{stable} of the {arms} arms of {workload}" in figures["survival"].get_label()


def test_losses_stand_at_their_rates_and_a_cross_is_a_diverged_run(figures):
    axes = figures["lr_sensitivity"].axes
    assert [ax.get_title(loc="left") for ax in axes] == 2 * ["fp32", "bf16", "fp16"]
    means = axes[2].get_lines()[1]
    np.testing.assert_array_equal(means.get_xdata(), RATES)
    assert means.get_ydata()[2] == pytest.approx(2.01)
    assert means.get_ydata()[4] == pytest.approx((2.3 + 3.5 + 2.32) / 3)
    crosses = [line for line in axes[2].get_lines() if line.get_marker() == "x"]
    assert [line.get_xydata().tolist() for line in crosses] == [[[0.1, 3.5]]]
    assert axes[0].get_xscale() == "log"
    assert "0.15 nats" in texts(axes[0])


@pytest.mark.parametrize("name", ["equivalence", "survival"])
@pytest.mark.parametrize("options", EDGES.values(), ids=EDGES)
def test_studies_at_the_edge_are_drawn(name, options, tmp_path):
    make_study_folder(tmp_path / "study", **options)
    figure = draw(name, analysed(tmp_path / "study"))
    check_readable(figure)
    if options["arms"] == ["fp32"]:
        assert {"no data", "no run became unstable"} & set(texts(figure))


def test_a_sweep_of_which_nothing_completed_is_drawn(study, tmp_path):
    folder = shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs"))
    table = read_csv(folder / "tables" / "sensitivity.csv")
    table.loc[table["arm"] == "fp16", "sensitivity"] = np.nan
    write_csv(folder / "tables" / "sensitivity.csv", table)
    assert texts(draw("lr_sensitivity", folder)).count("none completed") == 2


def test_a_sweep_without_any_loss_is_drawn(study, tmp_path):
    folder = shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs"))
    for name, columns in (("sensitivity", ["sensitivity"]), ("sensitivity_runs", ["initial_loss", "loss"])):
        path = folder / "tables" / f"{name}.csv"
        write_csv(path, read_csv(path).assign(**dict.fromkeys(columns, np.nan)))
    assert "none completed" in texts(draw("lr_sensitivity", folder))


def test_a_large_study_shows_what_can_be_read_and_says_so(tmp_path, monkeypatch):
    arms = [
        {
            "name": f"fp16-{interval}",
            "precision": "fp16",
            "loss_scaling": {"kind": "dynamic", "growth_interval": interval},
        }
        for interval in range(5, 35)
    ]
    monkeypatch.setitem(made_up.SETTINGS, "arms", [*made_up.SETTINGS["arms"][:1], *arms])
    make_study_folder(tmp_path, seeds=[0, 1], diverged={})
    figure = draw("equivalence", analysed(tmp_path))
    check_readable(figure)
    assert texts(figure).count("resnet50: 12 of 30 arms") == 1
    assert figure.get_label().endswith("tables/equivalence.csv has all.")
