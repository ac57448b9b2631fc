"""Claims about wrong ways, remedies and what autocast decides: made-up tables that give each verdict."""

import math

import pandas as pd
import pytest
from made_up_claims import DYNAMIC, judge, practices_of, settings_of

RIGHT = {"name": "right", "precision": "fp16"}
REFUSED = {"status": "refused", "steps": 0, "cost": None, "said": "No. Not so."}
DIVERGED = {"status": "diverged", "cost": None}


def wrong(pitfall, *runs, precision="fp16", **more):
    arm = {"name": "wrong", "precision": precision, "pitfall": pitfall}
    return practices_of([RIGHT, arm], {"wrong": runs}, **more)


def costs(*values, **more):
    return [{"cost": value, **more} for value in values]


@pytest.mark.parametrize(
    ("runs", "kind"),
    [
        (costs(1.0, 1.1, 1.2), "supported"),
        (costs(-1.0, -1.1), "supported"),
        (costs(1.0, 1.1, said="Beware. Or not."), "refuted"),
        (costs(0.01, -0.02, 0.0), "refuted"),
        ([REFUSED, REFUSED], "refuted"),
        ([REFUSED], "inconclusive"),
        (costs(0.01, 0.2), "inconclusive"),
        (costs(1.0), "inconclusive"),
        ([*costs(1.0), DIVERGED], "inconclusive"),
    ],
)
def test_clip_order(runs, kind):
    assert judge("clip-order", wrong("clip_before_unscale", *runs)).kind == kind


def test_runs_that_diverge_are_told_with_the_cost_of_the_others():
    found = judge("clip-order", wrong("clip_before_unscale", *costs(1.0, 1.1), DIVERGED)).finding
    assert found.endswith("above `right` where it completes (1 of its 3 runs diverged), and PyTorch says nothing.")
    found = judge("clip-order", wrong("clip_before_unscale", DIVERGED, DIVERGED)).finding
    assert "has no final loss to compare: 2 of its 2 runs diverged" in found


@pytest.mark.parametrize(
    ("runs", "kind"),
    [
        ([REFUSED, REFUSED], "supported"),
        ([DIVERGED, REFUSED, DIVERGED], "supported"),
        (costs(0.5, 0.6), "supported"),
        (costs(0.01, 0.0), "refuted"),
        (costs(0.01, 0.3), "inconclusive"),
        ([REFUSED], "inconclusive"),
        ([REFUSED, *costs(0.01, 0.0)], "inconclusive"),
    ],
)
def test_forgotten_update(runs, kind):
    assert judge("forgotten-update", wrong("update_forgotten", *runs)).kind == kind


@pytest.mark.parametrize(
    ("pitfall", "claim"), [("clip_before_unscale", "clip-order"), ("update_forgotten", "forgotten-update")]
)
def test_a_block_whose_right_way_diverged_is_none(pitfall, claim):
    """All three runs complete; in one block there is nothing to hold the run against."""
    tables = wrong(pitfall, *costs(1.0, 1.1, math.nan))
    assert judge(claim, tables, blocks=2).kind == "supported"
    found = judge(claim, tables, blocks=3)
    assert (found.kind, found.n) == ("inconclusive", 2)


def test_a_case_without_a_cost_hides_no_other():
    lost = wrong("clip_before_unscale", *costs(math.nan, math.nan), case="lost")
    good = wrong("clip_before_unscale", *costs(1.0, 1.1), case="good")
    both = {name: pd.concat([lost[name], good[name]], ignore_index=True) for name in lost}
    assert judge("clip-order", both).kind == "supported"


POISONED = {"status": "diverged", "skipped": 1, "bad_where": "buffer stem.norm.running_mean", "later_finite": 9}


@pytest.mark.parametrize(
    ("runs", "model", "kind"),
    [
        ([POISONED, POISONED], "convnet", "refuted"),
        ([POISONED, POISONED], "my.own:model", "refuted"),
        ([POISONED], "convnet", "inconclusive"),
        ([POISONED, {"skipped": 1}], "convnet", "inconclusive"),
        ([{"skipped": 1}, {"skipped": 2}], "convnet", "supported"),
        ([{"skipped": 1}, {"skipped": 0}], "convnet", "inconclusive"),
        ([{"skipped": 1}, DIVERGED | {"skipped": 1, "bad_where": "loss"}], "convnet", "inconclusive"),
        ([{"skipped": 1}, {"skipped": 1}], "transformer", "not testable"),
    ],
)
def test_batchnorm_safe(runs, model, kind):
    assert judge("batchnorm-safe", wrong("overflow_ignored", *runs, model=model)).kind == kind


def lost(*shares):
    return [{"lost_updates": share} for share in shares]


@pytest.mark.parametrize(
    ("runs", "kind"),
    [
        (lost(0.12, 0.13, 0.12), "supported"),
        (lost(0.01, 0.02, 0.01), "refuted"),
        (lost(0.01, 0.12, 0.2), "inconclusive"),
        (lost(0.12), "inconclusive"),
        ([DIVERGED, DIVERGED], "inconclusive"),
        ([*lost(0.12, 0.12), DIVERGED], "supported"),
    ],
)
def test_master_weights(runs, kind):
    assert judge("master-weights", wrong("half_weights", *runs, precision="bf16")).kind == kind


def test_master_weights_lose_more_than_the_right_way_does():
    arms = [RIGHT, {"name": "wrong", "precision": "bf16", "pitfall": "half_weights"}]
    tables = practices_of(arms, {"right": lost(0.5, 0.5, 0.5), "wrong": lost(0.52, 0.52, 0.52)})
    found = judge("master-weights", tables)
    assert found.kind == "refuted"
    assert found.estimate == pytest.approx(2)


ILL = {"name": "ill", "precision": "fp16", "loss_scaling": DYNAMIC}
CURES = {
    "lower-init-scale": {"loss_scaling": DYNAMIC | {"init_scale": 1024}},
    "stronger-backoff": {"loss_scaling": DYNAMIC | {"backoff_factor": 0.25}},
    "fp32-islands": {"fp32_modules": ["head"]},
}


def skips(*counts):
    return [{"skipped": count} for count in counts]


@pytest.mark.parametrize("claim", CURES)
@pytest.mark.parametrize(
    ("ill", "cured", "kind"),
    [
        (skips(20, 20, 21), skips(0, 0, 0), "supported"),
        (skips(20, 20, 21), skips(5, 5, 5), "supported"),  # a tenth is no more than a tenth
        (skips(20, 20, 21), skips(10, 10, 11), "refuted"),
        (skips(20, 20, 21), skips(1, 5, 12), "inconclusive"),
        (skips(20), skips(0), "inconclusive"),
        ([DIVERGED] * 3, skips(0, 0, 0), "supported"),
        (skips(20, 20, 21), [DIVERGED] * 3, "refuted"),
        (skips(2, 3, 2), skips(0, 0, 0), "not testable"),
    ],
)
def test_remedies(claim, ill, cured, kind):
    arms = [ILL, ILL | CURES[claim] | {"name": "cure"}]
    found = judge(claim, practices_of(arms, {"ill": ill, "cure": cured}))
    assert found.kind == kind


@pytest.mark.parametrize("claim", CURES)
def test_a_remedy_differs_in_nothing_else(claim):
    cure = ILL | CURES[claim] | {"name": "cure", "lr_factor": 0.1}
    tables = practices_of([ILL, cure], {"ill": skips(20, 20), "cure": skips(0, 0)})
    assert judge(claim, tables).kind == "not testable"


def test_cases_that_disagree_leave_a_remedy_open():
    arms = [ILL, ILL | CURES["fp32-islands"] | {"name": "cure"}]
    parts = [
        practices_of(arms, {"ill": skips(20, 20), "cure": skips(count, count)}, case=case)
        for case, count in (("one", 0), ("two", 15))
    ]
    tables = {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}
    found = judge("fp32-islands", tables)
    assert found.kind == "inconclusive"
    assert "one" in found.finding
    assert "two" in found.finding


def test_an_island_is_held_against_an_arm_that_ignores_its_overflow():
    ill = ILL | {"name": "ill", "pitfall": "overflow_ignored"}
    arms = [ill, ILL | {"name": "cure", "fp32_modules": ["stem"]}]
    assert (
        judge("fp32-islands", practices_of(arms, {"ill": [DIVERGED, DIVERGED], "cure": skips(1, 1)})).kind
        == "supported"
    )


def operations(cpu, cuda):
    rows = [
        {"operation": name, "precision": precision, "cpu": cpu, "cuda": cuda}
        for name in ("layer_norm", "softmax")
        for precision in ("bf16", "fp16")
    ]
    other = {"operation": "linear", "precision": "fp16", "cpu": "float16", "cuda": "float16"}
    return {"settings": settings_of([RIGHT]), "autocast_operations": pd.DataFrame([*rows, other])}


@pytest.mark.parametrize(
    ("cpu", "cuda", "kind"),
    [
        ("float32", "float32", "supported"),
        ("bfloat16", "float32", "refuted"),
        ("float32", None, "inconclusive"),
        ("bfloat16", None, "refuted"),
    ],
)
def test_layernorm_fp32(cpu, cuda, kind):
    assert judge("layernorm-fp32", operations(cpu, cuda)).kind == kind


def test_what_is_found_of_layernorm_names_both_devices():
    found = judge("layernorm-fp32", operations("bfloat16", "float32"))
    assert (
        found.finding
        == "Of `layer_norm` and `softmax` in BF16 and FP16, 0 of 4 on the CPU and 4 of 4 on CUDA are FP32."
    )
    assert found.estimate == 0
