"""Published figures: each with its source, ratios that follow from what was published, and bounds of the same model."""

import math
import re
from pathlib import Path

import pandas as pd
import pytest
from made_up_timings import make_record, make_steps, make_timing_spec
from typeset import typeset

from halfscale.analysis.collect import read_csv
from halfscale.analysis.macros import published_values
from halfscale.analysis.prose.published import published
from halfscale.analysis.published import DATA, own_timings, published_table, published_tex
from halfscale.analysis.throughput import throughput_table
from halfscale.study.load import load_study
from halfscale.study.runs import plan_study

ROOT = Path(__file__).parents[2]
CLAIMED = {
    "h200-resnet50": 1.36,
    "h200-bert-base": 1.81,
    "h200-bert-large": 1.93,
    "h100-resnet50": 1.42,
    "a100-resnet50": 2.63,
    "v100-resnet50": 3.26,
    "rtx3090-layout": 1.47,
    "a100-convnext-fp32": 5.6,
    "a100-convnext-tf32": 2.1,
}
"""The ratios that the sources give, to two or three digits."""

ROOFLINE = pd.DataFrame(
    [("resnet50-224", 256, "H200", name, ms) for name, ms in (("fp32", 100.0), ("tf32", 40.0), ("fp16", 20.0))]
    + [("resnet50-224", 256, "V100", name, ms) for name, ms in (("fp32", 90.0), ("fp16", 30.0))],
    columns=["case", "batch_size", "device", "precision", "step_ms"],
)


@pytest.fixture(scope="module")
def plan():
    return plan_study(load_study([ROOT / "config" / "config.yaml"]))


@pytest.fixture(scope="module")
def table(plan):
    return published_table(plan, ROOFLINE)


@pytest.fixture(scope="module")
def timed():
    return throughput_table(make_record(make_timing_spec()), make_steps())


def row(table, key):
    (found,) = table[table["key"] == key].to_dict("records")
    return found


def test_every_figure_has_a_source_that_the_bibliography_holds():
    table = read_csv(DATA)
    assert table["key"].is_unique
    entries = set(re.findall(r"^@\w+\{(.*),$", (ROOT / "paper/references.bib").read_text(), re.MULTILINE))
    assert set(table["source"]) <= entries


def test_the_ratios_follow_from_the_rates(table):
    for key, ratio in CLAIMED.items():
        assert row(table, key)["ratio"] == pytest.approx(ratio, rel=0.015)
    others = table[~table["key"].isin(CLAIMED)]
    assert others.loc[others["kind"] != "speed", "ratio"].isna().all()
    assert row(table, "a100-convnext-fp32")["memory_ratio"] == pytest.approx(27376 / 55950)


def test_a_bound_is_that_of_the_same_model_input_and_device(table):
    found = row(table, "h200-resnet50")
    assert (found["bound_batch"], found["bound_fp32"], found["bound_tf32"]) == (256, 5.0, 2.0)
    found = row(table, "v100-resnet50")
    assert found["bound_fp32"] == 3.0
    assert math.isnan(found["bound_tf32"])  # the device has no TF32
    for key in ("h200-bert-base", "a100-resnet50", "rtx3090-layout", "a100-gemm-fp32"):
        assert math.isnan(row(table, key)["bound_fp32"])


def test_a_study_without_roofline_has_no_bounds(plan):
    study = plan.model_copy(update={"roofline": {}})
    assert published_table(study, None)[["bound_batch", "bound_fp32", "bound_tf32"]].isna().all(axis=None)
    spec = plan.roofline["resnet50-224"]
    case = spec.case.model_copy(update={"input": spec.case.input.model_copy(update={"size": 64})})
    smaller = plan.model_copy(update={"roofline": {"resnet50-224": spec.model_copy(update={"case": case})}})
    assert published_table(smaller, ROOFLINE)["bound_fp32"].isna().all()


def test_own_timings_are_paired_with_the_fp32_that_they_are_a_ratio_to(timed):
    ((own, base),) = own_timings(timed)
    assert (own["variant"], base["variant"]) == ("bf16-contiguous-b8", "fp32-contiguous-b8")
    assert own["speedup"] == pytest.approx(base["step_ms"] / own["step_ms"], rel=0.05)


def test_of_several_batches_the_largest_stands_for_a_workload(timed):
    larger = timed.assign(batch_size=16, variant=timed["variant"].str.replace("b8", "b16"))
    ((own, base),) = own_timings(pd.concat([timed, larger], ignore_index=True))
    assert (own["variant"], base["variant"]) == ("bf16-contiguous-b16", "fp32-contiguous-b16")


def test_the_table_compiles_with_and_without_own_timings(table, timed, tmp_path):
    cite = r"\newcommand{\citet}[1]{#1}"
    for own in (None, timed):
        text = published_tex(table, own)
        assert ("this study's" in text) == (own is not None)
        typeset(
            rf"{cite}\begingroup\let\small\footnotesize {text.replace('sec:roofline', 'tab:published')}\endgroup",
            tmp_path,
        )


def test_no_number_of_the_text_is_typed(table, plan, timed):
    values = dict(published_values(table))
    for bounds, own in ((table, timed), (published_table(plan, None), None)):
        text = published(bounds, own)
        keys = re.findall(r"\\val\{(published\.[^}]*)\}", text)
        assert set(keys) <= values.keys()
        assert "--" not in [values[key] for key in keys]
        rest = re.sub(r"\\val\{[^}]*\}|FP(16|32)|BF16|TF32|[VAH]100|H200|ResNet-50|top-1", "", text)
        assert not re.search(r"\d", rest), rest
    assert "On an H200" in published(table, None)
    assert "On an H200" not in published(published_table(plan, None), None)
    assert "This study has no speed-up of its own" in published(table, None)
    assert r"Our own ratio is \val{throughput.images.bf16-contiguous-b8.speedup} for BF16 on" in published(table, timed)


def test_what_was_published_keeps_its_digits(table):
    values = dict(published_values(table))
    assert values["published.a100-resnet50-top1.baseline"] == "$76.95$"
    assert values["published.a100-resnet50-top1.half_spread"] == "$0.11$"
    assert values["published.scaler-cost.half"] == "$-0.73$"
