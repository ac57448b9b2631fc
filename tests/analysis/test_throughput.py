"""From made-up step times, whose medians and ratios are known, to the throughput table."""

import math
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from figure_checks import check_readable
from made_up_timings import make_record, make_sheet, make_steps, make_timing_spec
from matplotlib.text import Text

from halfscale.analysis import style
from halfscale.analysis.collect import write_csv
from halfscale.analysis.figures import speedup, step_phases
from halfscale.analysis.macros import throughput_values
from halfscale.analysis.prose.throughput import throughput
from halfscale.analysis.statistics import median_with_interval
from halfscale.analysis.throughput import (
    block_table,
    describe_throughput,
    plain_fp32,
    throughput_table,
    throughput_tex,
)
from halfscale.study.sealed import write_sealed
from halfscale.study.timings import GpuLook, write_steps


@pytest.fixture
def table() -> pd.DataFrame:
    spec = make_timing_spec()
    return throughput_table(make_record(spec), make_steps()).set_index("variant")


def test_time_is_the_median_of_block_medians(table: pd.DataFrame) -> None:
    assert table.loc["fp32-contiguous-b8", "step_ms"] == pytest.approx(200.0)
    assert table.loc["bf16-contiguous-b8", "forward_ms"] == pytest.approx(25.0)
    assert table.loc["bf16-contiguous-b8", "backward_ms"] == pytest.approx(50.0)
    assert (
        196 <= table.loc["fp32-contiguous-b8", "step_ms_low"] <= 200 <= table.loc["fp32-contiguous-b8", "step_ms_high"]
    )


def test_ratios_are_taken_within_blocks(table: pd.DataFrame) -> None:
    """The blocks' noise falls on both alike: the ratio is exact and its interval has no width."""
    row = table.loc["bf16-contiguous-b8"]
    assert row["speedup"] == pytest.approx(2.0, rel=1e-12)
    assert row["speedup_low"] == pytest.approx(2.0, rel=1e-12)
    assert row["speedup_high"] == pytest.approx(2.0, rel=1e-12)
    assert math.isnan(table.loc["fp32-contiguous-b8", "speedup"])  # the reference has none


def test_a_scaler_is_held_against_the_same_precision_without(table: pd.DataFrame) -> None:
    row = table.loc["bf16-scaled-contiguous-b8"]
    assert row["scaler_cost"] == pytest.approx(1.25, rel=1e-12)
    assert row["speedup"] == pytest.approx(1.6, rel=1e-12)  # and the speed-up against plain fp32
    assert math.isnan(table.loc["bf16-contiguous-b8", "scaler_cost"])


def test_rates(table: pd.DataFrame) -> None:
    row = table.loc["bf16-contiguous-b8"]
    assert row["samples_per_second"] == pytest.approx(80.0)
    assert row["tflops"] == pytest.approx(4.0)
    assert row["share_of_gemm"] == pytest.approx(0.5)


def test_waiting_for_data_is_flagged(table: pd.DataFrame) -> None:
    row = table.loc["bf16-contiguous-b8"]
    assert row["loader_ms"] == pytest.approx(125.0)
    assert row["waiting"] == pytest.approx(0.2)
    assert row["input_bound"]
    assert row["launch_gap"] == pytest.approx(0.2)


def test_what_was_not_timed_has_a_row_and_no_number(table: pd.DataFrame) -> None:
    numbers = ["step_ms", "speedup", "scaler_cost", "tflops", "samples_per_second"]
    assert table.loc["fp16-contiguous-b8", "status"] == "numerics only"
    assert table.loc["fp32-scaled-contiguous-b8", "status"] == "unavailable"
    assert table.loc[["fp16-contiguous-b8", "fp32-scaled-contiguous-b8"], numbers].isna().all(axis=None)


def test_the_latex_table_names_what_has_no_time(table: pd.DataFrame) -> None:
    text = throughput_tex(table.reset_index())
    assert r"\textit{numerics only}" in text
    assert "$2.00$" in text
    assert r"$^\ast$: input-bound" in text


def test_a_bootstrap_interval_is_the_same_every_time_and_needs_six_values() -> None:
    """The range of five, which no bootstrap leaves, holds the true median in 94 of 100 cases."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0]
    first = median_with_interval(values)
    assert first == median_with_interval(values)
    assert first.median == 3.5
    assert 1.0 <= first.low < 3.5 < first.high <= 10.0
    few = median_with_interval(values[:5])
    assert few.median == 3.0
    assert math.isnan(few.low)
    assert math.isnan(few.high)
    assert math.isnan(median_with_interval([]).median)


def test_of_few_blocks_a_ratio_is_told_without_an_interval(tmp_path: Path) -> None:
    steps = make_steps()
    spec = make_timing_spec().model_copy(update={"blocks": 5})
    few = throughput_table(make_record(spec), steps[steps["block"] < 5])
    row = few.set_index("variant").loc["bf16-contiguous-b8"]
    assert row["speedup"] == pytest.approx(2.0, rel=1e-12)
    assert math.isnan(row["speedup_low"])
    text = throughput(few)
    assert r"Of \code{bf16}, too few blocks were timed for an interval: it has" in text
    assert r"What the scaler of \code{bf16-scaled} costs is not told apart from nothing" in text
    write_csv(tmp_path / "tables" / "throughput.csv", few)
    write_csv(tmp_path / "tables" / "throughput_blocks.csv", block_table(make_record(spec), steps[steps["block"] < 5]))
    with mpl.rc_context(style.RC):
        figure = speedup.draw(tmp_path)
        figure.draw_without_rendering()
        check_readable(figure)
    assert "2.00 [too few blocks]" in [text.get_text() for text in figure.findobj(Text)]


@pytest.fixture
def folder(table: pd.DataFrame, tmp_path: Path) -> Path:
    """A study folder with the tables that the figures read."""
    write_csv(tmp_path / "tables/throughput.csv", table.reset_index())
    write_csv(tmp_path / "tables/throughput_blocks.csv", block_table(make_record(make_timing_spec()), make_steps()))
    return tmp_path


def test_blocks_have_their_own_speed_ups() -> None:
    blocks = block_table(make_record(make_timing_spec()), make_steps())
    assert len(blocks) == 3 * 10
    assert set(blocks.loc[blocks["variant"] == "bf16-contiguous-b8", "speedup"].round(9)) == {2.0}
    assert blocks.loc[blocks["variant"] == "fp32-contiguous-b8", "speedup"].isna().all()


def test_the_speed_ups_are_drawn_with_those_that_have_none_named(folder: Path) -> None:
    with mpl.rc_context(style.RC):
        figure = speedup.draw(folder)
        figure.draw_without_rendering()
        check_readable(figure)
    written = [text.get_text() for text in figure.findobj(Text)]
    assert "2.00 [2.00, 2.00]" in written
    assert written.count("numerics only") == 2
    assert "fp32" not in written


def test_the_phases_of_a_step_are_drawn(folder: Path) -> None:
    with mpl.rc_context(style.RC):
        figure = step_phases.draw(folder)
        figure.draw_without_rendering()
        check_readable(figure)
    written = [text.get_text() for text in figure.findobj(Text)]
    assert "200 ms" in written
    assert "20.0 %, input-bound" in written
    (ax,) = figure.axes
    assert [round(bar.get_width(), 6) for bar in ax.patches[:3]] == [50.0, 100.0, 50.0]


def test_the_text_says_what_the_intervals_say(table: pd.DataFrame) -> None:
    text = throughput(table.reset_index())
    assert r"\code{bf16} is faster than FP32" in text
    assert r"The scaler of \code{bf16-scaled} makes its step" in text
    assert "The CPU has no units for the format of" in text
    assert r"Not to be had on this device: \code{fp32-scaled}." in text
    assert "not steady" not in text


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.01, 1.2, "faster than FP32"),
        (0.8, 0.99, "slower than FP32"),
        (0.99, 1.01, "as fast as FP32, to two per cent"),
        (0.9, 1.1, "not told apart from FP32"),
    ],
)
def test_a_verdict_for_every_interval(table: pd.DataFrame, low: float, high: float, verdict: str) -> None:
    table.loc["bf16-contiguous-b8", ["speedup_low", "speedup_high"]] = low, high
    assert rf"\code{{bf16}} is {verdict}" in throughput(table.reset_index())


def test_every_number_of_the_text_is_a_macro(table: pd.DataFrame) -> None:
    values = dict(throughput_values(table.reset_index()))
    assert values["throughput.images.bf16-contiguous-b8.speedup"] == "$2.00$"
    assert values["throughput.images.fp32-contiguous-b8.step_ms"] == "$200$"
    text = throughput(table.reset_index())
    keys = [part.split("}")[0] for part in text.split(r"\val{")[1:]]
    assert keys
    assert set(keys) <= values.keys()


def test_a_listed_device_is_held_against_its_data_sheet() -> None:
    table = throughput_table(make_record(make_timing_spec(), make_sheet()), make_steps())
    row = table.set_index("variant").loc["fp32-contiguous-b8"]
    assert (row["mfu"], row["least_ms"], row["share_of_bound"]) == pytest.approx((0.4, 50.0, 0.25))  # 2 of 5 TFLOP/s
    bf16 = table.set_index("variant").loc["bf16-contiguous-b8"]
    assert bf16["mfu"] == pytest.approx(0.4)
    assert math.isnan(bf16["least_ms"])
    text = throughput(table)
    values = dict(throughput_values(table))
    assert values["throughput.images.fp32-contiguous-b8.share_of_bound"] == "$25.0$"
    assert r"its MFU is \val{throughput.images.fp32-contiguous-b8.mfu}" in text


def test_a_device_that_is_not_listed_has_neither_mfu_nor_bound(table: pd.DataFrame) -> None:
    assert table[["mfu", "least_ms", "share_of_bound"]].isna().all(axis=None)
    assert "MFU" not in throughput_tex(table.reset_index())
    assert "data sheet" not in throughput(table.reset_index())


def test_the_clocks_of_a_gpu_are_told() -> None:
    looks = [
        GpuLook(sm_clock=clock, power=600, temperature=60, held_back=clock < 1500) for clock in (1980, 1410, 1980, 1980)
    ]
    table = throughput_table(make_record(make_timing_spec(), looks=looks), make_steps())
    row = table.set_index("variant").loc["fp32-contiguous-b8"]
    assert (row["sm_clock_low"], row["sm_clock_high"], row["held_back"]) == (1410, 1980, 0.25)
    assert "The clock of the GPU lay between" in throughput(table)
    assert dict(throughput_values(table))["throughput.images.fp32-contiguous-b8.held_back"] == "$25.0$"


def test_a_cpu_has_no_clocks(table: pd.DataFrame) -> None:
    assert table["sm_clock_low"].isna().all()
    assert "clock" not in throughput(table.reset_index())


def test_what_the_device_attains_stands_beside(table: pd.DataFrame) -> None:
    row = table.loc["bf16-contiguous-b8"]
    assert (row["gemm_tflops"], row["copy_gb_per_second"]) == (8.0, 10.0)
    assert math.isnan(row["transfer_ms"])
    assert "from the host to the device" not in throughput(table.reset_index())


def test_a_transfer_is_told_in_the_format_of_the_precision() -> None:
    record = make_record(make_timing_spec())
    found = record.attained.model_copy(update={"transfer": {"fp32": 0.002, "fp16": 0.001, "bf16": 0.001}})
    moved = throughput_table(record.model_copy(update={"attained": found}), make_steps())
    by_name = moved.set_index("variant")["transfer_ms"]
    assert (by_name["fp32-contiguous-b8"], by_name["bf16-contiguous-b8"]) == (2.0, 1.0)
    assert r"transfer_ms}\,ms for BF16" in throughput(moved)
    tokens = record.attained.model_copy(update={"transfer": {"int64": 0.003}})
    moved = throughput_table(record.model_copy(update={"attained": tokens}), make_steps())
    assert moved.set_index("variant")["transfer_ms"]["bf16-contiguous-b8"] == 3.0


def test_blocks_that_lie_far_apart_are_told(tmp_path: Path) -> None:
    steps = make_steps()
    steps.loc[steps["block"] < 4, "seconds"] *= 1.5  # as when something else runs for a while
    table = throughput_table(make_record(make_timing_spec()), steps)
    row = table.set_index("variant").loc["fp32-contiguous-b8"]
    assert row["spread"] == pytest.approx(0.47, abs=0.02)
    assert row["disturbed"]
    text = throughput(table)
    assert "The machine was not quiet" in text
    keys = [part.split("}")[0] for part in text.split(r"\val{")[1:]]
    assert set(keys) <= dict(throughput_values(table)).keys()


def test_a_terminal_is_told_which_blocks_lie_far_apart(tmp_path: Path) -> None:
    spec, steps = make_timing_spec(), make_steps()
    steps.loc[(steps["block"] < 4) & (steps["variant"] == "bf16-contiguous-b8"), "seconds"] *= 1.5
    digest = write_steps(steps, spec, tmp_path / "steps.parquet")
    record = make_record(spec).model_copy(update={"steps_sha256": digest})
    write_sealed(record, tmp_path / "throughput.json")
    last = describe_throughput(tmp_path, spec).splitlines()[-1]
    assert last.startswith(f"Blocks of {spec.workload} (bf16) differ by more than 5%")


def test_a_scaler_whose_interval_holds_one_is_not_said_to_cost(table: pd.DataFrame) -> None:
    even = table.reset_index().assign(scaler_cost_low=0.99, scaler_cost_high=1.02)
    text = throughput(even)
    assert r"What the scaler of \code{bf16-scaled} costs is not told apart from nothing" in text
    assert "as long" not in text


def test_quiet_blocks_are_not_remarked_on(table: pd.DataFrame) -> None:
    assert table.loc["fp32-contiguous-b8", "spread"] == pytest.approx(0.0125, abs=0.005)
    assert "not quiet" not in throughput(table.reset_index())


def test_what_a_scaler_costs_fp32_is_no_speed_up() -> None:
    """fp32-scaled is not timed in the made-up record; where it is, it has a cost and no speed-up."""
    spec = make_timing_spec()
    by_name = {variant.name: variant for variant in spec.variants}
    assert plain_fp32(by_name["fp32-scaled-contiguous-b8"], spec) is None
    assert plain_fp32(by_name["fp32-contiguous-b8"], spec) is None
    assert plain_fp32(by_name["bf16-scaled-contiguous-b8"], spec) == by_name["fp32-contiguous-b8"]


def test_a_stray_block_does_not_set_the_axis(table: pd.DataFrame) -> None:
    blocks = block_table(make_record(make_timing_spec()), make_steps())
    stray = blocks.index[blocks["speedup"].notna()][0]
    blocks.loc[stray, "speedup"] = 40.0
    low, high = speedup.axis_of(table.reset_index(), blocks)
    assert low < 1 < 2 < high < 10
