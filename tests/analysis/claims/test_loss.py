"""Claims about loss and loss scaling: made-up tables that give each verdict."""

import math

import pandas as pd
import pytest
from made_up_claims import comparison, judge, study

FP32 = {"name": "fp32", "precision": "fp32"}
BF16 = {"name": "brain", "precision": "bf16"}
SCALED = {"name": "brain-scaled", "precision": "bf16", "loss_scaling": {"kind": "dynamic", "always": True}}
UNSCALED = {"name": "bare", "precision": "fp16", "loss_scaling": {"kind": "none"}}
STOCK = {"name": "stock", "precision": "fp16"}
SHORT = {"name": "short", "precision": "fp16", "loss_scaling": {"kind": "dynamic", "growth_interval": 10}}


def with_comparisons(arms, *rows, **more):
    return study([FP32, *arms], **more) | {"equivalence": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([("equivalent", 0.01)], "supported"),
        ([("identical", 0.0)], "supported"),
        ([("different", -0.2)], "supported"),
        ([("different", 0.2)], "refuted"),
        ([("inconclusive", 0.02)], "inconclusive"),
        ([("not comparable", 0.02)], "inconclusive"),
        ([("equivalent", 0.01), ("different", 0.2)], "refuted"),
        ([("equivalent", 0.01), ("inconclusive", -0.2)], "inconclusive"),
    ],
)
def test_bf16_no_loss(rows, kind):
    workloads = [f"w{index}" for index in range(len(rows))]
    studies = [with_comparisons([BF16], workload=workload) for workload in workloads]
    tables = {name: pd.concat([each[name] for each in studies]) for name in ("runs", "arms")}
    told = [
        comparison("brain", verdict, gap, workload=workload)
        for workload, (verdict, gap) in zip(workloads, rows, strict=True)
    ]
    tables |= {"settings": studies[0]["settings"], "equivalence": pd.DataFrame(told)}
    assert judge("bf16-no-loss", tables).kind == kind


def test_one_block_is_no_verdict_on_loss():
    one = {"n": 1, "of": 1, "low": math.nan, "high": math.nan, "smallest_margin": math.nan}
    tables = with_comparisons(
        [BF16, UNSCALED, STOCK],
        *(comparison(arm, "not comparable", 1.0, **one) for arm in ("brain", "bare", "stock")),
        seeds=1,
    )
    for claim in ("bf16-no-loss", "fp16-needs-scaling", "defaults-fine"):
        assert judge(claim, tables).kind == "inconclusive"


def test_arms_are_found_by_what_they_are():
    """Neither a BF16 arm at another learning rate, nor one that fell back to FP32, speaks for BF16."""
    hot = {"name": "hot", "precision": "bf16", "lr_factor": 10}
    assert judge("bf16-no-loss", with_comparisons([hot], comparison("hot", "different", 1.0))).kind == "not testable"
    tables = with_comparisons([BF16], comparison("brain", "identical", 0.0))
    assert judge("bf16-no-loss", tables).kind == "supported"
    tables["arms"]["fell_back"] = tables["arms"]["arm"] == "brain"
    assert judge("bf16-no-loss", tables).kind == "not testable"


def test_without_equivalence_losses_are_not_judged():
    for claim, arm in (("bf16-no-loss", BF16), ("fp16-needs-scaling", UNSCALED), ("defaults-fine", STOCK)):
        found = judge(claim, study([FP32, arm]))
        assert found.kind == "not testable"
        assert "equivalence" in found.would_decide


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (comparison("bare", "different", 0.2), "supported"),
        (comparison("bare", "different", 0.06), "inconclusive"),  # its interval reaches into the margin
        (comparison("bare", "equivalent", 0.01), "refuted"),
        (comparison("bare", "identical", 0.0), "refuted"),
        (comparison("bare", "inconclusive", 0.04), "inconclusive"),
    ],
)
def test_fp16_needs_scaling(row, kind):
    assert judge("fp16-needs-scaling", with_comparisons([UNSCALED], row)).kind == kind


def test_fp16_that_diverges_without_scaling_needs_it():
    row = comparison("bare", "not comparable", math.nan, n=0)
    tables = with_comparisons([UNSCALED], row, bare={"status": "diverged"})
    found = judge("fp16-needs-scaling", tables)
    assert found.kind == "supported"
    assert "3 of 3 runs of `bare` on `tokens` diverge" in found.finding
    both = with_comparisons([UNSCALED], row, bare={"status": "diverged"}, fp32={"status": "diverged"})
    assert judge("fp16-needs-scaling", both).kind == "inconclusive"


def test_the_underflow_is_told_beside():
    """Of 8 elements that are not zero, 2 lie below 2^-25."""
    exponents = pd.DataFrame({"workload": "tokens", "step": 5, "exponent": [math.nan, -30, -20], "count": [9, 2, 6]})
    tables = with_comparisons([UNSCALED], comparison("bare", "equivalent")) | {"exponents": exponents}
    assert (
        "25 % of the gradient's elements are zero in FP16 on `tokens` at step 5"
        in judge("fp16-needs-scaling", tables).finding
    )


def scaled_pair(seeds=3, scaled=None, plain=None, flushed=0.0001):
    tables = study([FP32, BF16, SCALED], seeds=seeds, brain=plain or {}, brain_scaled=scaled or {})
    if flushed is not None:
        tables["probe_scales"] = pd.DataFrame({"precision": ["bf16", "fp16"], "flushed": [flushed, 0.5]})
    return tables


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "supported"),
        ({"scaled": {"final_loss": 2.5}}, "refuted"),
        ({"plain": {"overflows": 1}}, "refuted"),
        ({"flushed": 0.002}, "inconclusive"),
        ({"flushed": None}, "inconclusive"),
        ({"seeds": 1}, "inconclusive"),
        ({"seeds": 1, "scaled": {"final_loss": 2.5}, "plain": {"overflows": 1}}, "inconclusive"),
        ({"scaled": {"skipped": 2, "final_loss": 2.5}}, "inconclusive"),  # no block in which nothing was skipped
    ],
)
def test_bf16_no_scaling(changes, kind):
    assert judge("bf16-no-scaling", scaled_pair(**changes)).kind == kind


SETTLED = {"steps": 110, "skipped": 10, "growths": 10}
"""Ten growths in 110 steps, each undone by a skip: one step in eleven."""
LONG = {"steps": 5000}


@pytest.mark.parametrize(
    ("verdict", "stock", "short", "kind"),
    [
        ("equivalent", LONG, SETTLED, "supported"),
        ("different", LONG, SETTLED, "refuted"),
        ("inconclusive", LONG, SETTLED, "inconclusive"),
        ("equivalent", {}, SETTLED, "inconclusive"),  # no growth interval of 2000 has passed
        ("equivalent", LONG, {"skipped": 1, "growths": 1}, "refuted"),  # 1 % of the steps
        ("equivalent", LONG, {"skipped": 40, "growths": 40}, "refuted"),
    ],
)
def test_defaults_fine(verdict, stock, short, kind):
    tables = with_comparisons([STOCK, SHORT], comparison("stock", verdict, 0.1), stock=stock, short=short)
    assert judge("defaults-fine", tables).kind == kind


def test_the_cost_of_a_growth_interval_is_that_of_a_settled_scale():
    """Calibration, and the steps of a net rise of the scale, do not count: of 200 steps, 5 and 6 x 10."""
    from halfscale.analysis.claims.defaults_fine import cost_of_short

    rising = {"steps": 200, "skipped": 14, "skipped_calibration": 5, "growths": 15}
    assert cost_of_short(study([SHORT], short=rising), 10).mean == pytest.approx(9 / (200 - 5 - 60))
    still_rising = {"steps": 100, "growths": 9}
    assert cost_of_short(study([SHORT], short=still_rising), 10).n == 0


def test_the_cost_is_carried_over_from_another_growth_interval():
    from halfscale.analysis.claims.defaults_fine import cost_of_short

    twenty = {"name": "twenty", "precision": "fp16", "loss_scaling": {"kind": "dynamic", "growth_interval": 20}}
    skips = {"steps": 210, "skipped": 10, "growths": 10}
    assert cost_of_short(study([twenty], twenty=skips), 10).mean == pytest.approx(1 / 11)


def test_defaults_without_a_short_growth_interval_are_open():
    tables = with_comparisons([STOCK], comparison("stock", "equivalent"), stock=LONG)
    assert judge("defaults-fine", tables).kind == "inconclusive"


def test_every_scaled_arm_is_held_against_the_unscaled_one():
    arms = [BF16, SCALED, {**SCALED, "name": "other"}]
    assert judge("bf16-no-scaling", study(arms)).n == 3
    apart = study(arms, other={"final_loss": 3.0})
    assert judge("bf16-no-scaling", apart).kind == "refuted"
