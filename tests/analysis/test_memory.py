"""What is made of predicted memory and time: tables, figures, text."""

from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import pytest
from figure_checks import check_readable
from made_up_predictions import COPIES, MIB, make_memory_record, make_roofline_record
from matplotlib.figure import Figure
from matplotlib.text import Text

from halfscale.analysis import style
from halfscale.analysis.collect import write_csv
from halfscale.analysis.figures import largest_batch, memory_by_batch, predicted_speedup
from halfscale.analysis.macros import memory_values, roofline_values
from halfscale.analysis.memory import describe_memory, largest_table, memory_table, memory_tex
from halfscale.analysis.prose.memory import memory
from halfscale.analysis.prose.roofline import roofline
from halfscale.analysis.roofline import describe_roofline, roofline_table, roofline_tex


def test_a_prediction_stands_beside_its_measurement():
    table = memory_table(make_memory_record())
    cuda = table[table["accounting"] == "cuda"].set_index(["precision", "batch_size"])
    assert cuda["peak"].to_dict() == {
        ("fp32", 1): 6 * MIB,
        ("fp32", 8): 20 * MIB,
        ("bf16", 1): (5 + COPIES) * MIB,
        ("bf16", 8): (12 + COPIES) * MIB,
    }
    assert cuda["ratio"].to_dict() == {("fp32", 1): 1.0, ("fp32", 8): 1.0, ("bf16", 1): 7 / 6, ("bf16", 8): 0.7}
    assert table["measured"].notna().sum() == 1
    measured = cuda.loc[("bf16", 8)]
    found = (measured["measured"], measured["allocated"], measured["reserved"], measured["retries"])
    assert found == (11 * MIB, 12 * MIB, 14 * MIB, 0)
    assert measured["residual"] == pytest.approx(0.1)


def test_the_largest_batch_is_predicted_and_searched():
    table = largest_table(make_memory_record())
    assert table[["device", "how"]].drop_duplicates().to_numpy().tolist() == [
        ["V100", "predicted"],
        ["A100", "predicted"],
        ["H200", "predicted"],
        ["NVIDIA H200", "searched"],
    ]
    assert table["batch_size"].tolist() == [0, 40, 70, 100, 200, 97]


def test_memory_in_words_and_latex():
    text = describe_memory(make_memory_record())
    assert "a_b: 1,048,576 parameters" in text
    assert "20.0" in text
    tex = memory_tex(memory_table(make_memory_record()))
    assert r"a\_" in tex
    assert "CUDA autocast" in tex
    assert "$20.0$" in tex


def test_the_roofline_table():
    table = roofline_table(make_roofline_record())
    row = table.set_index(["device", "precision"]).loc[("H200", "bf16")]
    assert (row["case"], row["batch_size"], row["step_ms"], row["bytes"], row["amdahl"]) == ("a_b", 4, 2.0, 3, 6)
    assert "H200 & BF16 & $2.00$ & $5.00$ & $6.00$" in roofline_tex(table)
    assert "2.0 GFLOP" in describe_roofline(make_roofline_record())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study folder with the tables of memory and roofline."""
    write_csv(tmp_path / "tables/memory.csv", memory_table(make_memory_record()))
    write_csv(tmp_path / "tables/largest_batch.csv", largest_table(make_memory_record()))
    write_csv(tmp_path / "tables/roofline.csv", roofline_table(make_roofline_record()))
    return tmp_path


def drawn(module: ModuleType, folder: Path) -> Figure:
    with mpl.rc_context(style.RC):
        figure = module.draw(folder)
        figure.draw_without_rendering()
        check_readable(figure)
    return figure


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def test_memory_is_drawn_by_kind_as_a_share_of_the_first_precision(folder):
    figure = drawn(memory_by_batch, folder)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["CPU autocast", "CUDA autocast"]
    bars = figure.axes[1].patches
    tops = {round(bar.get_y() + bar.get_height(), 6) for bar in bars}
    assert max(tops) == pytest.approx(700 / 6)  # BF16 at batch 1: 7 of FP32's 6 MiB
    assert 70.0 in tops  # and at batch 8
    assert {"6.00 MiB", "7.00 MiB", "20.0 MiB", "14.0 MiB", "bf16", "1", "8"} <= set(written(figure))


def test_the_largest_batch_is_drawn_by_device_and_what_ran_beside(folder):
    figure = drawn(largest_batch, folder)
    assert {"fp32 100, bf16 200", "fp32 97", "NVIDIA H200"} <= set(written(figure))
    assert "fp32 0" in written(figure)  # not even one sample fits: it is told, and has no place on the axis
    rings = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "none" and line.get_marker() == "o"]
    assert [list(ring.get_xdata()) for ring in rings] == [[97]]


def test_predicted_speed_ups_are_drawn_with_their_bound(folder):
    figure = drawn(predicted_speedup, folder)
    dots = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "o"]
    bounds = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "|"]
    assert (dots, bounds) == ([4.0, 5.0, 5.0], [5.0, 6.0, 6.0])
    assert {"40 ms", "10 ms", "25 %"} <= set(written(figure))


def test_the_text_says_what_the_tables_say_and_every_number_of_it_is_a_macro():
    table, largest = memory_table(make_memory_record()), largest_table(make_memory_record())
    times = roofline_table(make_roofline_record())
    values = dict([*memory_values(table, largest), *roofline_values(times)])
    text = memory(table, largest)
    assert "At batch size 1" not in text
    assert r"at batch size 1 it is \val{memory.a_b.cuda.bf16.1.saved}\,MiB in BF16" in text  # 3 MiB, against 2 in FP32
    assert values["memory.a_b.cuda.bf16.1.saved"] == "$3.00$"
    assert "by a factor of 1.75 to 2.00 in BF16 over the two devices" in text
    assert "took $10.0$" in text.replace(r"\,\%", "")
    assert "the largest batch that really ran was 97 in FP32" in text
    allowed = roofline(times)
    assert r"FP16 allows between \val{roofline.a_b.V100.fp16.speedup} times on the V100" in allowed
    keys = [part.split("}")[0] for part in (text + allowed).split(r"\val{")[1:]]
    assert keys
    assert set(keys) <= values.keys()


def test_one_precision_alone_is_not_compared():
    table = memory_table(make_memory_record())
    largest = largest_table(make_memory_record())
    assert "nothing to compare" in memory(table[table["precision"] == "fp32"], largest)
