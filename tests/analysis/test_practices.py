"""From made-up outcomes, whose costs are known, to tables, the figure and the text."""

import math
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
from figure_checks import check_readable
from made_up_practices import ENDINGS, IGNORED, REFUSED, make_practices_record, write_tables_of_practices
from matplotlib.figure import Figure
from matplotlib.text import Text
from typeset import typeset

from halfscale.analysis import style
from halfscale.analysis.figures import practices as figure_of_practices
from halfscale.analysis.macros import practices_values
from halfscale.analysis.practices import (
    arm_table,
    describe_practices,
    practices_tex,
    read_practices_tables,
    run_table,
)
from halfscale.analysis.prose.practices import WRONG, practices
from halfscale.study.arm import Pitfall


@pytest.fixture
def arms() -> pd.DataFrame:
    return arm_table("made-up", make_practices_record())


def drawn(folder: Path) -> Figure:
    with mpl.rc_context(style.RC):
        figure = figure_of_practices.draw(folder)
        figure.draw_without_rendering()
        check_readable(figure)
    return figure


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text().strip()]


def test_a_cost_is_a_difference_within_a_block() -> None:
    runs = run_table("made-up", make_practices_record()).set_index(["arm", "seed"])
    assert runs.loc["early", "final_loss"].tolist() == [3.0, 3.25, 3.5]
    assert runs.loc["early", "cost"].tolist() == [1.0, 1.0, 1.0]
    assert runs.loc["right", "cost"].isna().all()
    assert runs.loc["twice", "cost"].isna().all()
    assert runs.loc["ignored", "cost"].isna().all()


def test_the_table_of_arms(arms: pd.DataFrame) -> None:
    rows = arms.set_index("arm").to_dict("index")
    assert list(rows) == list(ENDINGS)
    assert {row["reference"] for row in rows.values()} == {"right"}
    assert {arm: row["pitfall"] for arm, row in rows.items() if pd.notna(row["pitfall"])} == {
        "early": "clip_before_unscale",
        "twice": "unscaled_twice",
        "stepped": "schedule_on_skipped",
        "pure": "half_weights",
        "ignored": "overflow_ignored",
    }
    costs = {arm: row["cost"] for arm, row in rows.items() if not math.isnan(row["cost"])}
    assert costs == {"full": -0.25, "early": 1.0, "stepped": 0.5, "pure": 0.25}
    assert (rows["early"]["cost_low"], rows["early"]["cost_high"]) == (1.0, 1.0)
    assert (rows["early"]["steps"], rows["early"]["updates"], rows["early"]["skipped"]) == (150, 135, 15)
    assert [rows["twice"][name] for name in ("n", "completed", "diverged", "refused")] == [3, 0, 0, 3]
    assert [rows["ignored"][name] for name in ("completed", "diverged", "later_steps", "later_finite")] == [
        0,
        3,
        87,
        87,
    ]
    assert rows["pure"]["lost_updates"] == 0.125


def test_a_mean_is_over_the_runs_that_completed() -> None:
    record = make_practices_record()
    bad = [
        each if (each.arm, each.seed) != ("early", 2) else each.model_copy(update=IGNORED) for each in record.outcomes
    ]
    row = arm_table("made-up", record.model_copy(update={"outcomes": bad})).set_index("arm").loc["early"]
    assert (row["completed"], row["diverged"], row["cost"]) == (2, 1, 1.0)
    assert row["final_loss"] == pytest.approx((3.0 + 3.25) / 2)


def test_tables_come_back_as_they_were_written(arms: pd.DataFrame, tmp_path: Path) -> None:
    write_tables_of_practices(tmp_path, {"010": make_practices_record()})
    table, runs = read_practices_tables(tmp_path)
    assert set(table["case"]) == {"010"}
    assert len(runs) == 3 * len(ENDINGS)
    for name in ("cost", "skipped", "refused", "later_finite"):
        assert table[name].astype(float).fillna(-1).tolist() == arms[name].astype(float).fillna(-1).tolist()


def test_the_terminal_shows_what_is_wrong_and_what_pytorch_said() -> None:
    text = describe_practices(make_practices_record())
    assert re.search(r"early +clip_before_unscale +completed +135/150 +15 ", text)
    assert re.search(r"twice +unscaled_twice +refused +0/0 ", text)
    assert text.endswith("twice: Called already\nstepped: Order")


def test_the_latex_table_can_be_typeset(tmp_path: Path) -> None:
    """With costs so small that they and their intervals need a power of ten."""
    record = make_practices_record()
    small = [
        each if each.final_loss is None else each.model_copy(update={"final_loss": 2 + 1e-5 * each.final_loss * seed})
        for seed, each in enumerate(record.outcomes)
    ]
    text = practices_tex(arm_table("made-up", record.model_copy(update={"outcomes": small})))
    assert r"\times10^{" in text
    assert r"\textit{made-\allowbreak{}up, held against right}" in text
    typeset(text, tmp_path)


def test_the_figure_shows_costs_and_says_which_arms_are_wrong_refused_and_diverged(tmp_path: Path) -> None:
    write_tables_of_practices(tmp_path)
    figure = drawn(tmp_path)
    (panel,) = figure.axes
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == [
        "right (reference)",
        "full",
        *(f"{arm} (wrong)" for arm in ("early", "twice", "stepped", "pure", "ignored")),
    ]
    means = [float(line.get_xdata()[0]) for line in panel.lines if line.get_markersize() == 4.5]
    assert means == [-0.25, 1.0, 0.5, 0.25]
    assert {"3 of 3 refused by PyTorch", "3 of 3 diverged"} <= set(words(figure))
    assert "12.5" in words(figure)


@pytest.mark.parametrize(
    "endings",
    [
        dict.fromkeys(ENDINGS, REFUSED),
        dict.fromkeys(ENDINGS, IGNORED),
        {arm: {"final_loss": 2.0} for arm in ENDINGS},
        {arm: {"final_loss": 2.0 + 10.0**place} for place, arm in enumerate(ENDINGS)},
    ],
    ids=["all refused", "all diverged", "no cost at all", "seven orders of magnitude"],
)
def test_awkward_outcomes_are_drawn_and_told(endings: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    record = make_practices_record(endings)
    write_tables_of_practices(tmp_path, {"made-up": record, "again": record})
    figure = drawn(tmp_path)
    nothing = endings["full"]["final_loss"] is None
    assert words(figure).count("no data") == (2 if nothing else 0)
    table, _ = read_practices_tables(tmp_path)
    assert keys_of(practices(table, None)) <= dict(practices_values(table)).keys()


def keys_of(text: str) -> set[str]:
    return set(re.findall(r"\\val\{(.*?)\}", text))


def test_the_text_says_what_the_table_says(arms: pd.DataFrame) -> None:
    text = practices(arms, None)
    assert r"held against \code{right}, which completes and skips 15 of its 150 steps" in text
    assert r"PyTorch itself refuses \code{twice}." in text
    assert "ends in its first step: ``Called already.''" in text
    assert (
        r"The wrong way of \code{early}, which clips the gradient while it is still multiplied by the scale, changes "
        in text
    )
    assert r"its first update comes at a learning rate of \val{practices.made-up.stepped.first_lr}" in text
    assert "PyTorch warns of it: ``Order.''" in text
    assert r"an update leaves \val{practices.made-up.pure.lost_updates}\,\% where they were" in text
    assert r"the buffer \code{stem.running\_mean}; all 87 training losses that follow are finite" in text
    assert r"\code{full} changes the final loss by \val{practices.made-up.full.cost} nats" in text
    assert "was not measured in this study" in text
    values = dict(practices_values(arms))
    assert keys_of(text) <= values.keys()
    assert (values["practices.made-up.early.cost"], values["practices.made-up.pure.lost_updates"]) == (
        "$1.00$",
        "$12.5$",
    )


def test_hardware_without_units_is_told_of_where_it_was_timed(arms: pd.DataFrame) -> None:
    timed = pd.DataFrame(
        {
            "workload": ["net", "net", "other"],
            "variant": ["fp32", "fp16-b8", "fp16-b4"],
            "precision": ["fp32", "fp16", "fp16"],
            "status": ["timed", "timed", "numerics only"],
            "speedup": [1.0, 0.125, None],
        }
    )
    assert r"\code{net} at \val{throughput.net.fp16-b8.speedup} times the speed of FP32" in practices(arms, timed)
    assert "was not measured in this study" in practices(arms, timed[timed["precision"] == "fp32"])


def test_every_pitfall_has_its_words() -> None:
    assert WRONG.keys() == set(Pitfall.__args__)  # type: ignore[attr-defined]
