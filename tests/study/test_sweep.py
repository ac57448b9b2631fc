import pytest

from halfscale.study.arm import Arm
from halfscale.study.config import Study
from halfscale.study.runs import plan_study
from halfscale.study.sweep import Sweep, expand_sweeps, short


def expand(base, **over):
    arms = [Arm.model_validate({"name": "base", **base})]
    return expand_sweeps(arms, [Sweep(name="s", base="base", over=over)])[1:]


def test_names_and_order():
    base = {"precision": "fp16", "loss_scaling": {"kind": "dynamic"}}
    arms = expand(base, growth_interval=[5, 80], init_scale=[1, 2**24])
    assert [arm.name for arm in arms] == [
        "s_init_scale-1_growth_interval-5",
        "s_init_scale-1_growth_interval-80",
        "s_init_scale-2e24_growth_interval-5",
        "s_init_scale-2e24_growth_interval-80",
    ]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "1"),
        (1.0, "1"),
        (512, "512"),
        (1024, "2e10"),
        (65536.0, "2e16"),
        (2.0**127, "2e127"),
        (1000, "1000"),
        (3072, "3072"),
        (0.25, "0.25"),
        (0.1234567, "0.1234567"),
        (1e-5, "1.0e-05"),
        (2.0**-24, "2e-24"),
        (1 / 512, "0.001953125"),
        (2e24, "2.0e24"),  # not 2^24, which is 2e24
        (1.5e20, "1.5e20"),
        ("bf16", "bf16"),
        (True, "True"),
    ],
)
def test_value_in_a_name(value, name):
    assert short(value) == name


def test_two_scales_over_three_precisions_are_four_runs(settings):
    """only fp16 is scaled, so fp32 and bf16 are one run each, whatever the scale."""
    settings["arms"] = [settings["arms"][0], settings["arms"][2]]
    settings["seeds"] = [0]
    settings["sweeps"][0]["over"] = {"precision": ["fp32", "bf16", "fp16"], "init_scale": [1024, 65536]}
    plan = plan_study(Study.model_validate(settings))
    swept = [member for member in plan.members if member.arm.startswith("scaler_")]
    assert len(swept) == 6
    assert len({member.run_id for member in swept}) == 4


def test_with_always_they_are_six_runs(settings):
    settings["arms"][2]["loss_scaling"]["always"] = True
    settings["seeds"] = [0]
    settings["sweeps"][0]["over"] = {"precision": ["fp32", "bf16", "fp16"], "init_scale": [1024, 65536]}
    plan = plan_study(Study.model_validate(settings))
    assert len({member.run_id for member in plan.members if member.arm.startswith("scaler_")}) == 6


def test_everything_else_is_the_base_arms():
    base = {"precision": "fp16", "perturb": "ulp", "fallback": "fp32", "loss_scaling": {"kind": "static", "scale": 4}}
    (arm,) = expand(base, scale=[8])
    assert arm == Arm.model_validate({**base, "name": "s_scale-8", "loss_scaling": {"kind": "static", "scale": 8.0}})


def test_precision_alone_keeps_a_scaling_left_out():
    """From an fp32 arm, which is not scaled, to an fp16 arm, which is."""
    fp32, fp16 = expand({"precision": "fp32"}, precision=["fp32", "fp16"])
    assert fp32.loss_scaling is fp16.loss_scaling is None
    assert fp32.effective_loss_scaling.kind == "none"
    assert fp16.effective_loss_scaling.kind == "dynamic"


def test_a_learning_rate_is_swept_before_the_loss_scaling():
    base = {"precision": "fp16", "loss_scaling": {"kind": "static", "scale": 4}}
    arms = expand(base, scale=[1, 8], lr_factor=[0.1, 3])
    assert [(arm.name, arm.lr_factor, arm.loss_scaling.scale) for arm in arms] == [
        ("s_lr_factor-0.1_scale-1", 0.1, 1),
        ("s_lr_factor-0.1_scale-8", 0.1, 8),
        ("s_lr_factor-3_scale-1", 3, 1),
        ("s_lr_factor-3_scale-8", 3, 8),
    ]


def test_scaling_left_out_is_swept_from_pytorch_defaults():
    fp32, fp16 = expand({"precision": "fp32"}, precision=["fp32", "fp16"], init_scale=[4])
    assert fp32.effective_loss_scaling.kind == "none"
    assert fp16.effective_loss_scaling.model_dump() == {
        "kind": "dynamic",
        "init_scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "always": False,
    }


def test_a_change_of_kind_drops_the_old_kinds_settings():
    base = {"precision": "fp16", "loss_scaling": {"kind": "dynamic", "growth_interval": 5}}
    dynamic, none = expand(base, kind=["dynamic", "none"])
    assert dynamic.loss_scaling.growth_interval == 5
    assert none.loss_scaling.model_dump() == {"kind": "none"}


def test_every_key_at_once_still_makes_a_name():
    base = {"precision": "fp16", "loss_scaling": {"kind": "dynamic"}}
    (arm,) = expand(
        base, precision=["bf16"], init_scale=[2**24], growth_factor=[2], backoff_factor=[0.25], growth_interval=[2000]
    )
    assert arm.name == "s_precision-bf16_init_scale-2e24_growth_factor-2_backoff_factor-0.25_growth_interval-2000"
