"""From made-up samples, whose exponents, updates and distances are known, to tables, figures and text."""

import shutil
from importlib import import_module
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from figure_checks import check_readable
from made_up import make_study_folder
from made_up_samples import AWAY, ULP
from matplotlib.figure import Figure
from matplotlib.text import Text

from halfscale.analysis import style
from halfscale.analysis.claims_tables import write_claims_tables
from halfscale.analysis.collect import collect, read_csv, read_plan, write_csv
from halfscale.analysis.macros import sample_values
from halfscale.analysis.prose.measured import Measured
from halfscale.analysis.prose.samples import samples as text_of
from halfscale.analysis.published import write_published_tables
from halfscale.analysis.samples import (
    arm_samples,
    exponent_table,
    flushed_share,
    read_sample_tables,
    write_sample_tables,
)
from halfscale.analysis.tables import write_tables
from halfscale.study.records import RecordError
from halfscale.study.runs import member_specs
from halfscale.study.samples import BINS

FIGURES = ("gradient_exponents", "lost_updates", "distance_from_fp32")


def analysed(folder: Path) -> Path:
    collect(folder)
    write_tables(folder)
    write_sample_tables(folder)
    write_published_tables(folder)
    write_claims_tables(folder)
    return folder


@pytest.fixture(scope="module")
def study(finished_study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples") / "study"
    shutil.copytree(finished_study, folder)
    return analysed(folder)


@pytest.fixture(scope="module")
def tables(study: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return read_sample_tables(study)


def test_one_row_a_sampled_step_in_the_order_of_the_plan(
    study: Path, tables: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    samples, _ = tables
    runs = read_csv(study / "tables/runs.csv")
    every = {"resnet50": 10, "transformer": 5}
    expected = [
        (run.workload, run.arm, run.seed, step)
        for run in runs.itertuples()
        for step in range(0, run.steps, every[str(run.workload)])
    ]
    keys = samples[["workload", "arm", "seed", "step"]].itertuples(index=False, name=None)
    assert list(keys) == expected


def test_shares_say_of_what_they_are(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """Of 1000 elements 100 are zero; of the 900 others, 30 to a binade from 2^-40, 450 lie below 2^-25."""
    row = tables[0].iloc[0]
    assert (row["elements"], row["zero"], row["below_fp16"]) == (1000, 0.1, 0.5)
    assert (row["moved"], row["lost_bf16"], row["lost_fp16"]) == (0.9, 0.5, pytest.approx(1 / 6))


def test_a_skipped_step_has_no_update(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    skipped = tables[0].query("arm == 'fp16-init-2e24' and step == 0")
    assert len(skipped) == 6
    assert skipped[["moved", "lost_bf16", "lost_fp16", "update_ratio"]].isna().all(axis=None)
    assert skipped[["zero", "below_fp16"]].notna().all(axis=None)


def test_distances_are_held_against_the_twin_of_the_block(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    samples, _ = tables
    assert samples.loc[samples["arm"] == "fp32", ["distance", "distance_ratio"]].isna().all(axis=None)
    twin = samples[samples["arm"] == "fp32-ulp"]
    np.testing.assert_allclose(twin["distance"], ULP * 2.0 ** (twin["step"] / 10), rtol=1e-6)
    assert (twin["distance_ratio"] == 1).all()
    for arm, away in AWAY.items():
        own = samples[(samples["arm"] == arm) & (samples["step"] > 0)]
        np.testing.assert_allclose(own["distance_ratio"].dropna(), away, rtol=1e-6)
        assert (samples.loc[(samples["arm"] == arm) & (samples["step"] == 0), "distance_ratio"].dropna() == 0).all()


def test_without_a_twin_there_is_a_distance_and_no_ratio(tmp_path: Path) -> None:
    make_study_folder(tmp_path, seeds=[0], arms=["fp32", "bf16"], diverged={})
    samples, _ = read_sample_tables(analysed(tmp_path))
    assert samples["distance_ratio"].isna().all()
    assert samples.loc[samples["arm"] == "bf16", "distance"].notna().all()


def test_a_reference_that_ends_early_leaves_no_distance_after_it(tmp_path: Path) -> None:
    make_study_folder(tmp_path, seeds=[0], arms=["fp32", "fp32-ulp", "bf16"], diverged={"fp32": [0]})
    samples, _ = read_sample_tables(analysed(tmp_path))
    own = samples.query("arm == 'bf16' and workload == 'resnet50'").set_index("step")
    assert own["distance"].notna().tolist() == [True, True, True, False]  # it diverges at step 20


def test_exponents_are_counted_over_the_blocks_of_the_reference() -> None:
    counts = np.zeros(BINS, dtype=np.int64)
    counts[[0, 1, 127, 254, 255]] = 5, 1, 7, 2, 9
    table = exponent_table({("net", 0): counts})
    assert table["exponent"].tolist() == [pd.NA, -126, 0, 127]
    assert table["count"].tolist() == [5, 1, 7, 2]  # what is not finite is left out


@pytest.mark.parametrize(("step", "shift", "flushed"), [(0, 0, 0.5), (20, 0, 16 / 30), (0, 10, 5 / 30), (0, 16, 0.0)])
def test_what_fp16_flushes_follows_from_the_exponents(
    tables: tuple[pd.DataFrame, pd.DataFrame], step: int, shift: int, flushed: float
) -> None:
    assert flushed_share(tables[1], "resnet50", step, shift) == pytest.approx(flushed)


def test_the_tables_are_the_same_bytes_on_every_repeat(study: Path, tmp_path: Path) -> None:
    again = Path(shutil.copytree(study, tmp_path / "again"))
    write_sample_tables(again)
    for name in ("samples.csv", "exponents.csv"):
        assert (again / "tables" / name).read_bytes() == (study / "tables" / name).read_bytes()


def test_samples_of_another_run_are_refused_by_name(finished_study: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished_study, tmp_path / "study"))
    member, _ = next(pair for pair in member_specs(read_plan(folder)) if pair[0].arm == "bf16")
    path = folder / "runs" / member.run_id / "samples.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordError, match=r"bf16.*samples\.parquet: is no whole samples"):
        write_sample_tables(folder)
    path.unlink()
    with pytest.raises(RecordError, match=r"samples\.parquet: there is no such samples"):
        write_sample_tables(folder)


def draw(name: str, folder: Path) -> Figure:
    with mpl.rc_context(style.RC):
        figure = import_module(f"halfscale.analysis.figures.{name}").draw(folder)
        figure.draw_without_rendering()
        check_readable(figure)
    return figure


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def test_exponents_are_drawn_by_step_and_once_more_where_the_scale_takes_them(study: Path) -> None:
    figure = draw("gradient_exponents", study)
    ax = figure.axes[0]
    (first, edges, _), _, (last, at, _), (scaled, moved, _) = [patch.get_data() for patch in ax.patches]
    assert edges[np.flatnonzero(first)[0]] == -40
    assert first.max() == pytest.approx(100 / 30)
    np.testing.assert_array_equal(scaled, last)
    np.testing.assert_array_equal(moved, at + 16)
    assert any("unscaled: 53.3 %, 36.7 %" in text for text in texts(figure))
    bars = figure.axes[1].patches
    low, normal, high = bars[1].get_x(), bars[0].get_x(), bars[0].get_x() + bars[0].get_width()
    assert (low, normal) == (-24, -14)
    assert 2**high == pytest.approx(65504)


def test_lost_updates_are_those_of_the_reference(study: Path) -> None:
    figure = draw("lost_updates", study)
    mean = figure.axes[0].lines[3]  # behind it the three blocks
    np.testing.assert_allclose(mean.get_ydata(), [100 * (450 + step) / 900 for step in (0, 10, 20, 30)])
    assert {"BF16", "FP16", "updates lost (%)"} <= set(texts(figure))


def test_distances_are_drawn_by_arm_in_units_of_the_twin(study: Path) -> None:
    figure = draw("distance_from_fp32", study)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[:3] == ["bf16", "fp16", "fp16-unscaled"]
    assert {"fp32", "fp32-ulp"}.isdisjoint(titles)
    own = [line for line in figure.axes[0].lines if line.get_color() == style.arm_colours(arms_of(study))["bf16"]]
    assert len(own) == 3
    np.testing.assert_allclose(own[0].get_ydata(), AWAY["bf16"], rtol=1e-6)
    assert "distance (× twin's)" in texts(figure)
    assert "diverged: 3 of 3" in texts(figure)
    assert "the dotted line" in str(figure.get_label())


def arms_of(folder: Path):
    return read_plan(folder).arms


def test_without_a_twin_the_distance_itself_is_drawn(tmp_path: Path) -> None:
    make_study_folder(tmp_path, seeds=[0], arms=["fp32", "bf16"], diverged={})
    figure = draw("distance_from_fp32", analysed(tmp_path))
    assert "distance (L2)" in texts(figure)
    assert "has no twin" in str(figure.get_label())


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    "options",
    [
        {"seeds": [0], "arms": ["fp32"], "diverged": {}},
        {"seeds": [0, 1], "arms": ["fp32", "fp32-ulp"], "diverged": {"fp32": [0, 1]}},
        {"seeds": [0], "arms": ["fp32", "fp32-ulp", "fp16", "bf16"], "diverged": {"fp16": [0], "bf16": [0]}},
    ],
    ids=["reference alone", "a twin", "all diverged"],
)
def test_studies_at_the_edge_are_drawn(name: str, options: dict, tmp_path: Path) -> None:
    make_study_folder(tmp_path, **options)
    figure = draw(name, analysed(tmp_path))
    nothing = name == "distance_from_fp32" and len(options["arms"]) < 3
    assert ("no data" in texts(figure)) == nothing


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_values_that_say_nothing_are_drawn_as_such(study: Path, tmp_path: Path, name: str, value: float) -> None:
    folder = Path(shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs")))
    samples, exponents = read_sample_tables(folder)
    numbers = ["lost_bf16", "lost_fp16", "distance", "distance_ratio"]
    write_csv(folder / "tables/samples.csv", samples.assign(**dict.fromkeys(numbers, value)))
    write_csv(folder / "tables/exponents.csv", exponents.assign(exponent=pd.NA))
    written = texts(draw(name, folder))
    expected = "same weights" if name == "distance_from_fp32" and value == 0 else "no data"
    assert (expected in written) == (name != "lost_updates" or bool(np.isnan(value)))


def test_the_text_says_what_the_tables_say_and_every_number_of_it_is_a_macro(study: Path) -> None:
    measured = Measured.read(study)
    assert measured.samples is not None
    text = text_of(measured)
    values = dict(sample_values("fp32", *measured.samples))
    keys = [part.split("}")[0] for part in text.split(r"\val{")[1:]]
    assert len(keys) == 22
    assert set(keys) <= values.keys()
    assert values["samples.resnet50.flushed_first"] == "$50.0$"
    assert values["samples.resnet50.flushed_default"] == "$0$"
    assert values["samples.resnet50.fp32.lost_bf16"] == "$53.3$"
    assert values["samples.transformer.bf16.distance_ratio"] == "$8000$"
    assert values["samples.error"] == "$2.21$"
    assert (
        r"between \val{samples.transformer.fp16.distance_ratio} (\code{fp16}) and "
        r"\val{samples.transformer.bf16.distance_ratio} (\code{bf16})"
    ) in text


def test_the_least_headroom_is_that_of_any_sampled_step() -> None:
    rows = {"workload": "net", "arm": "fp16", "step": [0, 5, 5], "headroom": [3.0, 1.5, None]}
    medians = {"lost_bf16": [0.1, 0.2, 0.4], "lost_fp16": 0.1, "update_ratio": 1e-3, "sharpness": 1.0}
    (row,) = arm_samples(pd.DataFrame(rows | medians | {"distance": 1.0, "distance_ratio": 2.0})).to_dict("records")
    assert (row["headroom"], row["step"]) == (1.5, 5)
    assert row["lost_bf16"] == pytest.approx(0.3)
