import shutil
from importlib import import_module

import made_up
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from figure_checks import EDGES, check_readable
from made_up import make_study_folder
from matplotlib.collections import FillBetweenPolyCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.text import Text

from halfscale.analysis import style
from halfscale.analysis.collect import collect, read_runs
from halfscale.analysis.figures import figure_inputs, figure_names
from halfscale.analysis.statistics import mean_with_interval
from halfscale.analysis.tables import write_tables
from halfscale.study.records import RecordError

OTHERS = {
    *("tables/predicted_skips.csv", "tables/samples.csv"),
    *("tables/equivalence.csv", "tables/sensitivity.csv", "tables/survival.csv"),
}
NAMES = [
    name for name in figure_names() if "plan.json" in figure_inputs(name) and OTHERS.isdisjoint(figure_inputs(name))
]
"""The figures of the traces."""


def analysed(folder):
    collect(folder)
    write_tables(folder)
    return folder


@pytest.fixture(scope="module")
def study(finished_study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "study"
    shutil.copytree(finished_study, folder)
    return analysed(folder)


@pytest.fixture
def change(study, tmp_path):
    """A function that gives a copy of the study whose traces have been changed."""

    def changed(edit):
        folder = tmp_path / "study"
        shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))
        traces = pd.read_parquet(folder / "traces.parquet")
        edit(traces)
        traces.to_parquet(folder / "traces.parquet")
        return folder

    return changed


def draw(name, folder):
    """Return the figure, laid out, so that all that can warn has had its chance."""
    with mpl.rc_context(style.RC):
        figure = import_module(f"halfscale.analysis.figures.{name}").draw(folder)
        figure.draw_without_rendering()
    return figure


def texts(artist):
    return [text.get_text() for text in artist.findobj(Text) if text.get_visible() and text.get_text().strip()]


def traces_of(folder, workload, arm):
    traces = pd.read_parquet(folder / "traces.parquet")
    return traces[(traces["workload"] == workload) & (traces["arm"] == arm)]


@pytest.fixture(scope="module")
def trajectory(study):
    return draw("scale_trajectory", study)


@pytest.fixture(scope="module")
def losses(study):
    return draw("loss_by_arm", study)


@pytest.fixture(scope="module")
def skips(study):
    return draw("skips_by_cause", study)


@pytest.fixture(scope="module")
def gaps(study):
    return draw("final_gap", study)


def test_trajectory_has_a_panel_for_each_dynamic_arm_and_one_for_the_static(trajectory):
    dynamic = ["fp16", "fp16-init-2e24"]
    titles = [ax.get_title(loc="left") for ax in trajectory.axes]
    assert titles == [*dynamic, *dynamic, "bf16-scaled", "static scales", "static scales"]
    assert [text for text in texts(trajectory) if text in ("resnet50", "transformer")] == ["resnet50", "transformer"]


@pytest.mark.parametrize("name", ["scale_trajectory", "loss_by_arm"])
def test_traces_that_are_cut_short_are_refused_by_name(study, tmp_path, name):
    folder = tmp_path / "study"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))
    content = (folder / "traces.parquet").read_bytes()
    (folder / "traces.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(RecordError, match=r"traces\.parquet: is not whole: .*; delete it to have it made again$"):
        draw(name, folder)


def test_trajectory_is_the_scale_of_the_trace(trajectory, study):
    trace = traces_of(study, "resnet50", "fp16-init-2e24")
    lines = trajectory.axes[1].get_lines()
    assert len(lines) == 3
    for line, (_, run) in zip(lines, trace.groupby("seed"), strict=True):
        assert line.get_drawstyle() == "steps-post"
        np.testing.assert_array_equal(line.get_xdata(), run["step"])
        np.testing.assert_array_equal(np.exp2(line.get_ydata()), run["scale"])
    assert lines[0].get_ydata()[0] == 24


def test_trajectory_marks_every_skipped_step_by_cause(trajectory, study):
    runs = read_runs(study)
    for ax, arm in zip(trajectory.axes, ["fp16", "fp16-init-2e24"], strict=False):
        mine = runs[(runs["workload"] == "resnet50") & (runs["arm"] == arm)]
        marks = [artist for artist in ax.collections if isinstance(artist, PathCollection)]
        assert [len(mark.get_offsets()) for mark in marks] == [mine[f"skipped_{cause}"].sum() for cause in style.CAUSES]
        assert [to_hex(mark.get_facecolor()[0]) for mark in marks if len(mark.get_offsets())] == [
            colour for cause, (_, colour, _) in style.CAUSES.items() if mine[f"skipped_{cause}"].sum()
        ]
    assert runs["skipped_calibration"].sum() > 10, "the made-up study must have skips to mark"


def test_trajectory_ends_diverged_runs_with_a_cross(trajectory):
    static = trajectory.axes[5]
    crosses = [line for line in static.get_lines() if line.get_marker() == "x"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in crosses] == [(20, 10)] * 3
    assert not [line for line in trajectory.axes[0].get_lines() if line.get_marker() == "x"]


def test_trajectory_axis_is_in_powers_of_two(trajectory):
    ax = trajectory.axes[0]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert all(label.startswith("$2^{") for label in labels)
    assert np.all(ax.get_yticks() == np.round(ax.get_yticks()))
    assert "fp16-static-2e10: always $2^{10}$" in texts(trajectory.axes[5])
    assert "from $2^{16}$, ×2 per 5, ×0.5" in texts(ax)


def test_trajectory_spans_all_that_fp32_can_hold(change):
    def edit(traces):
        rows = (traces["workload"] == "resnet50") & (traces["arm"] == "fp16")
        steps = traces.loc[rows, "step"]
        traces.loc[rows, "scale"] = np.exp2(np.linspace(-120, 127, steps.max() + 1))[steps].astype("float32")

    ax = draw("scale_trajectory", change(edit)).axes[0]
    low, high = ax.get_ylim()
    assert -160 < low < -120
    assert 127 < high < 170
    assert 3 <= len([tick for tick in ax.get_yticks() if low <= tick <= high]) <= 7


def test_a_scale_that_is_all_zero_is_no_data(change):
    def edit(traces):
        traces.loc[(traces["workload"] == "resnet50") & (traces["arm"] == "fp16"), "scale"] = 0

    figure = draw("scale_trajectory", change(edit))
    assert "no data" in texts(figure.axes[0])
    assert "no data" not in texts(figure.axes[1])


def test_losses_have_a_panel_for_each_arm_but_the_reference(losses, study):
    resnet50 = [ax.get_title(loc="left") for ax in losses.axes[:8]]
    assert resnet50 == [
        "fp32-ulp", "bf16", "fp16", "fp16-unscaled", "fp16-init-2e24", "fp16-static-2e10", "fp16_injected", "bf16-fallback"
    ]  # fmt: skip
    assert [ax.get_title(loc="left") for ax in losses.axes[8:]] == [*resnet50, "bf16-scaled"]


def test_loss_is_the_mean_of_completed_runs_and_their_range(losses, study):
    trace = traces_of(study, "resnet50", "fp16-unscaled")
    table = trace[trace["seed"] != 1].set_index(["step", "seed"])["loss"].unstack("seed")  # noqa: PD010
    smooth = table.rolling(3, center=True, min_periods=1).mean()
    ax = losses.axes[3]
    np.testing.assert_allclose(ax.get_lines()[1].get_ydata(), smooth.mean(axis=1), rtol=1e-6)
    band = [artist for artist in ax.collections if isinstance(artist, FillBetweenPolyCollection)][1]
    vertices = band.get_paths()[0].vertices
    middle = vertices[vertices[:, 0] == 20][:, 1]
    assert (middle.min(), middle.max()) == pytest.approx((smooth.loc[20].min(), smooth.loc[20].max()))


def test_losses_of_diverged_runs_are_counted_and_drawn_apart(losses):
    some, all_ = losses.axes[3], losses.axes[5]
    assert "diverged: 1 of 3" in texts(some)
    assert "diverged: 3 of 3" in texts(all_)
    assert not [text for text in texts(losses.axes[2]) if "diverged" in text]
    dashed = [line for line in some.get_lines() if line.get_linestyle() == "--"]
    assert [line.get_xdata()[-1] for line in dashed] == [19]  # its loss is infinite at step 20
    assert len(all_.get_lines()) == 1 + 2 * 3  # the reference, and three runs with their crosses


def test_the_floor_is_the_source_s_entropy(losses):
    floors = [[line for line in ax.get_lines() if line.get_linestyle() == ":"] for ax in losses.axes]
    assert [len(lines) for lines in floors] == [0] * 8 + [1] * 9
    assert floors[8][0].get_ydata() == [2.25, 2.25]
    assert texts(losses).count("source entropy") == 1
    assert losses.axes[8].get_ylim()[0] < 2.25


def test_losses_state_their_smoothing(losses):
    stated = [text for text in texts(losses) if "rolling" in text]
    assert stated == [
        "mean and range of 3 seeds; rolling mean of 3 steps",  # 40 steps
        "mean and range of 3 seeds; rolling mean of 3 steps",  # 60 steps
    ]
    window = import_module("halfscale.analysis.figures.loss_by_arm").smoothing_window
    assert [window(steps) for steps in (1, 19, 40, 60, 120, 1000)] == [1, 1, 3, 3, 7, 51]


def test_a_loss_that_is_all_nan_is_no_data(change):
    def edit(traces):
        traces.loc[(traces["workload"] == "resnet50") & (traces["arm"] == "bf16"), "loss"] = np.nan

    figure = draw("loss_by_arm", change(edit))
    assert ["no data" in texts(ax) for ax in figure.axes[:3]] == [False, True, False]


def test_losses_that_are_all_nan_are_no_data_everywhere(change):
    def edit(traces):
        traces["loss"] = np.float32("nan")

    figure = draw("loss_by_arm", change(edit))
    assert all("no data" in texts(ax) for ax in figure.axes)


def test_one_run_that_blows_up_does_not_flatten_the_others(change):
    def edit(traces):
        rows = (traces["arm"] == "fp16") & (traces["workload"] == "resnet50") & (traces["step"] > 30)
        traces.loc[rows, "loss"] = 1e30

    low, high = draw("loss_by_arm", change(edit)).axes[0].get_ylim()
    assert 2 < low < 2.3
    assert high < 6


def test_skips_have_a_bar_for_each_scaled_arm(skips, study):
    names = [[label.get_text() for label in ax.get_yticklabels()] for ax in skips.axes]
    scaled = ["fp16", "fp16-init-2e24", "fp16-static-2e10", "fp16_injected"]
    assert names == [scaled, [*scaled, "bf16-scaled"]]
    assert texts(skips).count("skipped steps (% of steps)") == 2


def test_skips_stack_to_the_share_of_steps(skips, study):
    runs = read_runs(study)
    for ax, workload in zip(skips.axes, ["resnet50", "transformer"], strict=True):
        for row, label in enumerate(ax.get_yticklabels()):
            mine = runs[(runs["workload"] == workload) & (runs["arm"] == label.get_text())]
            bars = [bar for bar in ax.patches if round(bar.get_y() + bar.get_height() / 2) == row]
            steps = mine["steps"].sum()
            expected = [100 * mine[f"skipped_{cause}"].sum() / steps for cause in style.CAUSES]
            assert [bar.get_width() for bar in bars] == pytest.approx(expected)
            assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(100 * mine["skipped"].sum() / steps)
            assert f"{mine['skipped'].sum()} of {steps}" in texts(ax)


def test_skips_say_how_many_runs_diverged(skips):
    assert texts(skips.axes[0]).count("3 of 3") == 1
    assert texts(skips.axes[1]).count("0 of 3") == 5


def test_gaps_are_seeds_mean_and_interval(gaps, study):
    table = pd.read_csv(study / "tables/gaps.csv")
    ax = gaps.axes[1]
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[:3] == ["fp32-ulp", "bf16", "fp16"]
    assert "fp32" not in names
    for row, name in enumerate(names):
        values = 1000 * table.loc[(table["workload"] == "transformer") & (table["arm"] == name), "gap"]
        interval, centre, dots = [line for line in ax.get_lines() if abs(np.mean(line.get_ydata()) - row) < 0.3][:3]
        expected = mean_with_interval(values)
        assert interval.get_xdata() == pytest.approx([expected.low, expected.high])
        assert centre.get_xdata() == pytest.approx([expected.mean])
        np.testing.assert_allclose(dots.get_xdata(), values)


def test_gaps_shade_the_twin_s_range_as_noise(gaps, study):
    table = pd.read_csv(study / "tables/gaps.csv")
    for ax, workload in zip(gaps.axes, ["resnet50", "transformer"], strict=True):
        largest = 1000 * table.loc[(table["workload"] == workload) & (table["arm"] == "fp32-ulp"), "gap"].abs().max()
        (band,) = ax.patches
        assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((-largest, largest))
        assert "noise floor" in texts(ax)


def test_gaps_say_how_many_runs_diverged(gaps):
    resnet50 = texts(gaps.axes[0])
    assert resnet50.count("1 of 3") == 1  # fp16-unscaled
    assert resnet50.count("3 of 3") == 1  # fp16-static-2e10, which therefore has no mean
    assert resnet50.count("–") == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0, 2.0, 3.0], "+2.0 [−0.5, +4.5]"),  # 2 -+ 4.303 x 1 / sqrt(3)
        ([100.0, 200.0, 300.0], "+200 [−48, +448]"),
        ([-0.01, -0.02, -0.03], "−0.020 [−0.045, +0.005]"),
        ([5.0], "+5.0"),
        ([1e-5, 2e-5, 3e-5], "+2.0 [−0.5, +4.5] $\\times 10^{-8}$ nats"),
        ([0.0, 0.0], "+0 [+0, +0]"),
        ([np.nan, np.nan], "–"),
    ],
)
def test_a_mean_in_words_has_two_digits_of_its_interval(values, words):
    in_words = import_module("halfscale.analysis.figures.final_gap").in_words
    assert in_words(mean_with_interval(values)) == words


def test_gaps_of_very_different_size_share_an_axis(study, tmp_path):
    shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs"))
    path = tmp_path / "study/tables/gaps.csv"
    table = pd.read_csv(path)
    table.loc[table["arm"] == "bf16", "gap"] = 2.0
    table.loc[table["arm"] == "fp32-ulp", "gap"] = [0.0003, -0.0005, 0.0001] * 2
    table.to_csv(path, index=False)
    ax = draw("final_gap", tmp_path / "study").axes[0]
    assert ax.get_xscale() == "symlog"
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == ["−10000", "−100", "−1", "0", "1", "100", "10000"]


@pytest.fixture(params=NAMES)
def figure(request):
    fixtures = {
        "final_gap": "gaps",
        "loss_by_arm": "losses",
        "scale_trajectory": "trajectory",
        "skips_by_cause": "skips",
    }
    return request.getfixturevalue(fixtures[request.param])


def test_every_workload_has_its_units(figure):
    labels = {"optimizer step", "training loss (nats)", "loss scale", "skipped steps (% of steps)"}
    labels.add("final training loss less that of fp32, same block ($10^{-3}$ nats)")
    found = [text for text in texts(figure) if text in labels]
    assert found
    assert all(found.count(label) == 2 for label in found)


def test_it_can_be_read(figure):
    check_readable(figure)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", EDGES.values(), ids=EDGES)
def test_studies_at_the_edge_are_drawn(name, options, tmp_path):
    make_study_folder(tmp_path / "study", **options)
    figure = draw(name, analysed(tmp_path / "study"))
    if options["arms"] == ["fp32"]:
        assert ("no data" in texts(figure)) == (name != "loss_by_arm")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A study of more arms than a figure has room for: 30 growth intervals, and each at a learning rate of its own."""
    arms = [
        {
            "name": f"fp16-{interval}{suffix}",
            "precision": "fp16",
            "loss_scaling": {"kind": "dynamic", "growth_interval": interval},
            "lr_factor": factor,
        }
        for interval in range(5, 35)
        for suffix, factor in [("", 1.0), ("-x3", 3.0)]
    ]
    folder = tmp_path_factory.mktemp("results") / "sweep"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(made_up.SETTINGS, "arms", [*made_up.SETTINGS["arms"][:1], *arms])
        made_up.make_study_folder(folder, seeds=[0, 1], diverged={})
    return analysed(folder)


@pytest.mark.parametrize(
    ("name", "count"), [("final_gap", 12), ("loss_by_arm", 12), ("scale_trajectory", 9), ("skips_by_cause", 12)]
)
def test_a_large_study_shows_what_can_be_read_and_says_so(sweep, name, count):
    """Evenly spread from the 30 at the reference's learning rate, 5 to 34."""
    figure = draw(name, sweep)
    of = 61 - (name in ("final_gap", "loss_by_arm")) - (name in ("scale_trajectory", "skips_by_cause"))
    assert texts(figure).count(f"resnet50: {count} of {of} arms") == 1
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]
    names = titles or [label.get_text() for ax in figure.axes for label in ax.get_yticklabels()]
    intervals = [5 + round(index * 29 / (count - 1)) for index in range(count)]
    assert names == 2 * [f"fp16-{interval}" for interval in intervals]
    assert figure.get_label() == (
        f"Not all arms are shown but {count} of {of} of resnet50, {count} of {of} of transformer: those at the "
        "reference's learning rate, thinned evenly in the order of the config; tables/arms.csv has all."
    )


def test_a_loss_is_drawn_over_that_of_the_reference_at_its_learning_rate(tmp_path, monkeypatch):
    arms = [
        {"name": "fp32", "precision": "fp32"},
        {"name": "fp32-x3", "precision": "fp32", "lr_factor": 3.0},
        {"name": "bf16-x3", "precision": "bf16", "lr_factor": 3.0},
    ]
    monkeypatch.setitem(made_up.SETTINGS, "arms", arms)
    make_study_folder(tmp_path, seeds=[0], diverged={})
    figure = draw("loss_by_arm", analysed(tmp_path))
    behind = []
    for ax, arm in zip(figure.axes[:2], ["fp32", "fp32-x3"], strict=True):
        losses = traces_of(tmp_path, "resnet50", arm)["loss"].rolling(3, center=True, min_periods=1).mean()
        np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), losses, rtol=1e-6)
        behind.append(losses.iloc[-1])
    assert behind[0] != behind[1]
    assert figure.get_label().startswith("Behind an arm at another learning rate stands")
    gaps = draw("final_gap", tmp_path)
    assert [label.get_text() for label in gaps.axes[0].get_yticklabels()] == ["bf16-x3"]
    assert gaps.get_label().startswith("The gap of an arm at another learning rate is to")
