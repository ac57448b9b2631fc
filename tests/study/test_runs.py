import json
import subprocess
import sys
from pathlib import Path

import pytest

from halfscale.study.config import Study
from halfscale.study.load import load_study
from halfscale.study.runs import Roster, member_specs, plan_study
from halfscale.study.spec import RunSpec

CONFIG = Path(__file__).parents[2] / "config"

PRINT_PLAN = """
import json, sys
from halfscale.study.load import parse_study
from halfscale.study.runs import plan_study
print(plan_study(parse_study(json.loads(sys.argv[1]), "tiny")).to_json())
"""


def reordered(settings):
    """The same config with the keys of every mapping the other way round."""
    if isinstance(settings, dict):
        return {key: reordered(value) for key, value in reversed(settings.items())}
    return [reordered(item) for item in settings] if isinstance(settings, list) else settings


def test_golden_run_ids(settings, run_ids):
    """A change that moves these makes every older result another experiment's: raise RunSpec.spec and say so."""
    assert run_ids(settings) == {
        "fp32": ["resnet50_fp32_c8fcc93cfc_seed0", "resnet50_fp32_c8fcc93cfc_seed1"],
        "bf16": ["resnet50_bf16_7434b7ee8d_seed0", "resnet50_bf16_7434b7ee8d_seed1"],
        "fp16": ["resnet50_fp16-dynamic_2df749d295_seed0", "resnet50_fp16-dynamic_2df749d295_seed1"],
        "static": ["resnet50_fp16-static_955af419a8_seed0", "resnet50_fp16-static_955af419a8_seed1"],
        "scaler_init_scale-1": ["resnet50_fp16-dynamic_965f118f54_seed0", "resnet50_fp16-dynamic_965f118f54_seed1"],
        "scaler_init_scale-2e10": ["resnet50_fp16-dynamic_4a7f425c4c_seed0", "resnet50_fp16-dynamic_4a7f425c4c_seed1"],
    }


def test_members_keep_config_order(settings):
    plan = plan_study(Study.model_validate(settings))
    assert [(member.workload, member.arm, member.seed) for member in plan.members] == [
        ("images", arm, seed)
        for arm in ["fp32", "bf16", "fp16", "static", "scaler_init_scale-1", "scaler_init_scale-2e10"]
        for seed in [0, 1]
    ]
    assert [arm.name for arm in plan.arms] == list(dict.fromkeys(member.arm for member in plan.members))


def test_an_arm_for_one_workload_stays_out_of_the_others(settings):
    settings["workloads"].append({**settings["workloads"][0], "name": "longer", "steps": 20})
    settings["arms"][1]["workloads"] = ["longer"]
    plan = plan_study(Study.model_validate(settings))
    assert {member.workload for member in plan.members if member.arm == "bf16"} == {"longer"}
    assert {member.workload for member in plan.members if member.arm == "fp16"} == {"images", "longer"}


def test_reordering_keys_changes_nothing(settings):
    there, back = (plan_study(Study.model_validate(each)).to_json() for each in (settings, reordered(settings)))
    assert there == back


def test_reordering_the_keys_of_a_sweep_changes_nothing(settings):
    over = {"growth_interval": [5, 20], "init_scale": [1, 1024], "precision": ["fp16", "bf16"]}
    settings["sweeps"][0]["over"] = over
    there = plan_study(Study.model_validate(settings)).to_json()
    settings["sweeps"][0]["over"] = reordered(over)
    assert plan_study(Study.model_validate(settings)).to_json() == there


def test_hash_seed_changes_nothing(settings):
    printed = {
        subprocess.run(
            [sys.executable, "-c", PRINT_PLAN, json.dumps(settings)],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ["0", "1", "2"]
    }
    assert len(printed) == 1
    assert printed.pop() == plan_study(Study.model_validate(settings)).to_json() + "\n"


def test_a_growth_interval_changes_its_own_arm_alone(change, settings, run_ids):
    settings["sweeps"] = []
    before = run_ids(settings)
    after = run_ids(change("arms 2 loss_scaling growth_interval", 6))
    assert before.keys() == after.keys()
    assert {arm for arm in before if before[arm] != after[arm]} == {"fp16"}
    assert not set(before["fp16"]) & set(after["fp16"])


def test_a_growth_interval_changes_the_sweeps_of_its_arm_too(change, settings, run_ids):
    before = run_ids(settings)
    after = run_ids(change("arms 2 loss_scaling growth_interval", 6))
    assert {arm for arm in before if before[arm] != after[arm]} == {
        "fp16",
        "scaler_init_scale-1",
        "scaler_init_scale-2e10",
    }


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("device", "cpu"),
        ("backend", "auto"),
        ("threads", 1),
        ("reference", "fp32"),
        ("workloads 0 model_args", {"num_classes": 10}),
        ("workloads 0 model_args", {"zero_init_residual": True, "num_classes": 10}),
        ("workloads 0 data_args", {"image_size": 32}),
        ("workloads 0 accumulate", 1),
        ("workloads 0 clip_norm", None),
        ("workloads 0 memory_format", "contiguous"),
        ("workloads 0 schedule name", "constant"),
        ("workloads 0 optimizer momentum", 0),
        ("workloads 0 optimizer weight_decay", 0.0),
        ("arms 0 fallback", "none"),
        ("arms 1 lr_factor", 1),
        ("arms 1 perturb", "none"),
        ("arms 1 inject", None),
        ("arms 1 workloads", ["images"]),
        ("arms 0 loss_scaling", {"kind": "none"}),
        ("arms 1 loss_scaling", {"kind": "none"}),
        ("arms 2 loss_scaling init_scale", 65536),
        ("arms 2 loss_scaling growth_factor", 2),
        ("arms 2 loss_scaling backoff_factor", 0.5),
        ("arms 2 loss_scaling always", False),
    ],
)
def test_a_default_said_aloud_changes_nothing(path, default, change, settings, run_ids):
    before = run_ids(settings)
    assert run_ids(change(path, default)) == before


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("arms 1 loss_scaling", {"kind": "dynamic", "init_scale": 1024}),  # bf16 is not scaled unless always
        ("arms 0 loss_scaling", {"kind": "static", "scale": 2}),
        ("arms 2 loss_scaling always", True),  # fp16 always is
        ("arms 0 fallback", "fp32"),  # where fp32 itself is asked for
        ("arms 1 reduced_precision_reduction", False),  # only CUDA has products that it could be asked of
        ("arms 1 name", "brain"),
        ("workloads 0 name", "digits"),
    ],
)
def test_what_has_no_effect_on_a_run_leaves_it_the_same_run(path, value, change, settings):
    before = plan_study(Study.model_validate(settings)).runs
    assert plan_study(Study.model_validate(change(path, value))).runs == before


def test_on_cuda_products_summed_in_fp32_are_another_run(change, run_ids):
    change("device", "cuda")
    before = run_ids(change("arms 1 reduced_precision_reduction", True))
    after = run_ids(change("arms 1 reduced_precision_reduction", False))
    assert {name for name in before if before[name] != after[name]} == {"bf16"}


def test_a_workload_takes_some_of_the_seeds(change):
    plan = plan_study(Study.model_validate(change("workloads 0 seeds", [1])))
    assert {member.seed for member in plan.members} == {1}


@pytest.mark.parametrize(
    ("seeds", "message"), [([7], "7 is no seed of the study; allowed: 0, 1"), ([1, 1], "used 2 times")]
)
def test_seeds_of_a_workload_are_some_of_the_studys(seeds, message, change):
    with pytest.raises(ValueError, match=message):
        Study.model_validate(change("workloads 0 seeds", seeds))


def test_injected_steps_are_a_set(change, run_ids):
    once, twice = (
        run_ids(change("arms 1 inject", {"kind": "inf_gradient", "steps": steps})) for steps in ([1, 5], [5, 1, 5])
    )
    assert once == twice


def test_arms_that_differ_in_nothing_are_one_run(settings):
    settings["arms"].append({"name": "bf16-with-idle-scaler", "precision": "bf16", "loss_scaling": {"kind": "dynamic"}})
    plan = plan_study(Study.model_validate(settings))
    assert len(plan.members) == 14
    assert len(plan.runs) == 12


def test_stock_fp16_is_a_scaler_with_pytorch_defaults(change):
    settings = change("arms 2", {"name": "fp16", "precision": "fp16"})
    settings["sweeps"] = []
    plan = plan_study(Study.model_validate(settings))
    assert plan.runs[plan.members[4].run_id].loss_scaling.model_dump() == {
        "kind": "dynamic",
        "init_scale": 65536.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "always": False,
    }


def test_lr_factor_makes_the_run_of_another_learning_rate(change, settings, run_ids):
    before = run_ids(settings)
    factored = run_ids(change("arms 1 lr_factor", 0.25))
    assert {arm for arm in before if before[arm] != factored[arm]} == {"bf16"}
    change("arms 1 lr_factor", 1)
    settings["arms"][0]["workloads"] = ["images"]
    assert factored["bf16"] == run_ids(change("workloads 0 optimizer lr", 0.0025))["bf16"]


def test_the_cluster_study_is_a_screen_of_756_runs():
    """METHOD: 2 models x 18 treatments x 7 learning rates x 3 seeds, every one a run of its own."""
    plan = plan_study(load_study([CONFIG / "cluster.yaml"]))
    treatments = {
        (
            spec.precision,
            *spec.loss_scaling.model_dump(include={"kind", "scale", "init_scale", "growth_interval"}).values(),
        )
        for spec in plan.runs.values()
    }
    screen = {
        *((precision, "none") for precision in ("fp32", "tf32", "bf16")),
        *(("fp16", "static", scale) for scale in (1, 2**8, 2**16)),
        *(("fp16", "dynamic", s, n) for s in (2**8, 2**16, 2**24) for n in (50, 200, 1000, 2000)),
    }
    assert treatments == screen
    assert len(screen) == 18
    rates = {spec.optimizer.lr for spec in plan.runs.values()}
    assert rates == {0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3}
    assert len(plan.runs) == 2 * 18 * 7 * 3 == 756
    for workload in plan.study.workloads:
        seeds = [member.seed for member in plan.members if (member.workload, member.arm) == (workload.name, "fp32")]
        assert seeds == [0, 1, 2]


def test_the_cluster_study_runs_past_its_longest_growth_interval():
    """Else a scale that grows is a scale that never does."""
    for spec in plan_study(load_study([CONFIG / "cluster.yaml"])).runs.values():
        if spec.loss_scaling.kind == "dynamic":
            assert spec.steps >= 5 * (spec.loss_scaling.growth_interval + 1)
        assert spec.device == "cuda"


def test_always_scales_bf16_and_makes_another_run(settings, run_ids):
    scaling = {"kind": "dynamic", "init_scale": 1024.0}
    settings["arms"].append({"name": "bf16-scaled", "precision": "bf16", "loss_scaling": {**scaling, "always": True}})
    plan = plan_study(Study.model_validate(settings))
    spec = plan.runs[next(member.run_id for member in plan.members if member.arm == "bf16-scaled")]
    assert (spec.loss_scaling.kind, spec.loss_scaling.init_scale) == ("dynamic", 1024.0)
    ids = run_ids(settings)
    assert not set(ids["bf16"]) & set(ids["bf16-scaled"])


def test_canonical_form_is_strict_json_and_comes_back(settings):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    for spec in plan_study(Study.model_validate(settings)).runs.values():
        text = spec.canonical()
        loaded = json.loads(text, parse_constant=refuse)
        assert list(loaded) == sorted(loaded)
        assert RunSpec.model_validate_json(text) == spec
        assert RunSpec.model_validate_json(text).canonical() == text


def test_roster_comes_back_from_json_and_makes_the_specs_of_the_plan(settings):
    plan = plan_study(Study.model_validate(settings))
    roster = Roster.model_validate_json(plan.to_json())
    assert roster.model_dump() == plan.model_dump(exclude={"runs"})
    assert [(member, spec) for member, spec in member_specs(roster)] == [
        (member, plan.runs[member.run_id]) for member in plan.members
    ]


def test_a_spec_with_an_unknown_key_is_refused(spec):
    with pytest.raises(ValueError, match="growht_factor"):
        RunSpec.model_validate_json(spec.canonical().replace('"growth_factor"', '"growht_factor"'))


def test_run_id_is_a_plain_folder_name(user_package, change):
    user_package("my_pkg/models.py", "def build(*, width: int = 8): ...")
    settings = change("workloads 0 model", "my_pkg.models:build")
    for run_id, spec in plan_study(Study.model_validate(settings)).runs.items():
        assert run_id.startswith(f"my-pkg-models-build_{spec.precision}")
        assert run_id == f"{spec.cell}_seed{spec.seed}"
    assert (
        len({spec.cell for spec in plan_study(Study.model_validate(settings)).runs.values()})
        == len(settings["arms"]) + 2
    )


def test_seeds_that_share_a_job_are_the_runs_they_would_be_alone(change, run_ids):
    apart = run_ids(change("seeds_per_job", 1))
    assert run_ids(change("seeds_per_job", 2)) == apart


@pytest.mark.parametrize(
    ("together", "jobs"), [(1, [[5], [3], [4]]), (2, [[5, 3], [4]]), (3, [[5, 3, 4]]), (9, [[5, 3, 4]])]
)
def test_jobs_take_the_seeds_in_their_order(change, together, jobs):
    change("seeds", [5, 3, 4])
    study = Study.model_validate(change("seeds_per_job", together))
    assert study.jobs() == jobs
    longer = study.model_copy(update={"seeds": [*study.seeds, 8, 9]}).jobs()
    whole = [job for job in jobs if len(job) == together]
    assert longer[: len(whole)] == whole  # their runs stay as they are


def test_experiments_keep_config_order_through_json():
    """config.yaml names resnet50 before the others, which the alphabet does not."""
    plan = plan_study(load_study([CONFIG / "gpu.yaml"]))
    back = Roster.model_validate_json(plan.to_json()).in_config_order()
    for kind in ("output_dtypes", "probe", "throughput", "memory", "roofline", "practices"):
        assert list(getattr(back, kind)) == list(getattr(plan, kind))
    assert next(iter(back.memory)) == "resnet50-224"
