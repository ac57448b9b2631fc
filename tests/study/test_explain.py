"""Every message a bad config can get, word for word, as its writer reads it."""

from datetime import date

import pytest

from halfscale.study.entry_points import known_names
from halfscale.study.load import ConfigError, parse_study

W = "workloads 0"
A = "arms 2"
S = "arms 2 loss_scaling"
O = "workloads 0 optimizer"  # noqa: E741
LR = "tiny.yaml: workloads[images].optimizer.lr = "
SCALE = "tiny.yaml: arms[fp16].loss_scaling."
OVER = "tiny.yaml: sweeps[scaler].over"
NAME = "allowed: letters, digits, '.', '_' and '-', with no space or slash, led by a letter or digit"
TEXT = "allowed: text, in quotes where it looks like a number or a date"
PLAIN = (
    "the reference must be plain: precision fp32, no lr_factor, no perturb, no inject, no layer_scales, no loss scaling"
)
RANGE = "a number, at least 2^-126 and at most 2^127"
ARM_KEYS = (
    "name, precision, loss_scaling, lr_factor, perturb, reduced_precision_reduction, fallback, inject, pitfall, "
    "fp32_modules, layer_scales, workloads"
)
STUDY_KEYS = "study, device, backend, threads, seeds, seeds_per_job, reference, workloads, arms, sweeps, experiments"
WORKLOAD_KEYS = "name, model, model_args, data, data_args, batch_size, accumulate, steps, optimizer, schedule, clip_norm, loss_factor, memory_format"
DYNAMIC_KEYS = "kind, init_scale, growth_factor, backoff_factor, growth_interval, always"
MODELS = ", ".join(known_names("model"))
DATA = ", ".join(known_names("data"))
RESNET_KEYS = "num_classes, zero_init_residual"

CASES = [
    # unknown keys
    ("growth_intervall", 5, f"tiny.yaml: growth_intervall = 5: unknown key; allowed: {STUDY_KEYS}"),
    ("seed", 5, f"tiny.yaml: seed = 5: unknown key (did you mean seeds?); allowed: {STUDY_KEYS}"),
    (
        f"{S} growth_intervall",
        5,
        f"{SCALE}growth_intervall = 5: unknown key (did you mean growth_interval?); allowed: {DYNAMIC_KEYS}",
    ),
    (
        f"{O} betas",
        [0.9, 0.99],
        "tiny.yaml: workloads[images].optimizer.betas = [0.9, 0.99]: unknown key; "
        "allowed: name, lr, momentum, weight_decay",
    ),
    (S, {"kind": "none", "init_scale": 5}, f"{SCALE}init_scale = 5: unknown key; allowed: kind"),
    ("arms 0 5", 1, f"tiny.yaml: arms[fp32].5: a key must be text; allowed: {ARM_KEYS}"),
    # numbers
    (
        f"{O} lr",
        "1e-4",
        f"{LR}'1e-4': this is text; allowed: a number, at least 2^-126 and at most 2^127, written without quotes, such as 65536, 0.0001 or 1e-4",
    ),
    (f"{O} lr", True, f"{LR}true: allowed: a number, at least 2^-126 and at most 2^127"),
    (f"{O} lr", None, f"{LR}null: allowed: a number, at least 2^-126 and at most 2^127"),
    (f"{O} lr", 0, f"{LR}0: allowed: a number, at least 2^-126 and at most 2^127"),
    (f"{O} lr", float("inf"), f"{LR}.inf: allowed: a number, at least 2^-126 and at most 2^127"),
    (f"{O} lr", float("-inf"), f"{LR}-.inf: allowed: a number, at least 2^-126 and at most 2^127"),
    (f"{W} steps", 1e3, "tiny.yaml: workloads[images].steps = 1000.0: allowed: a whole number, above 0 and below 2^31"),
    (f"{W} steps", 0, "tiny.yaml: workloads[images].steps = 0: allowed: a whole number, above 0 and below 2^31"),
    (
        f"{W} steps",
        "10",
        "tiny.yaml: workloads[images].steps = '10': this is text; "
        "allowed: a whole number, above 0 and below 2^31, written without quotes, such as 65536",
    ),
    (f"{W} clip_norm", 0, "tiny.yaml: workloads[images].clip_norm = 0: allowed: a number, above 0, or null"),
    ("seeds", [0, True], "tiny.yaml: seeds[1] = true: allowed: a whole number, at least 0 and below 2^31"),
    ("seeds", [-1], "tiny.yaml: seeds[0] = -1: allowed: a whole number, at least 0 and below 2^31"),
    # settings that GradScaler would accept and break on
    (f"{S} init_scale", 0, f"{SCALE}init_scale = 0: allowed: {RANGE}"),
    (f"{S} init_scale", float("nan"), f"{SCALE}init_scale = .nan: allowed: {RANGE}"),
    (f"{S} init_scale", float("inf"), f"{SCALE}init_scale = .inf: allowed: {RANGE}"),
    (f"{S} init_scale", 1e-39, f"{SCALE}init_scale = 1e-39: allowed: {RANGE}"),
    (f"{S} init_scale", 2.0**128, f"{SCALE}init_scale = 3.402823669209385e+38: allowed: {RANGE}"),
    (
        f"{S} init_scale",
        "2**16",
        f"{SCALE}init_scale = '2**16': this is text; "
        f"allowed: {RANGE}, written without quotes, such as 65536, 0.0001 or 1e-4",
    ),
    (f"{S} backoff_factor", 0, f"{SCALE}backoff_factor = 0: allowed: a number, at least 2^-126 and below 1"),
    (f"{S} backoff_factor", -0.5, f"{SCALE}backoff_factor = -0.5: allowed: a number, at least 2^-126 and below 1"),
    (f"{S} backoff_factor", 1, f"{SCALE}backoff_factor = 1: allowed: a number, at least 2^-126 and below 1"),
    (f"{S} growth_interval", 0, f"{SCALE}growth_interval = 0: allowed: a whole number, at least 1 and below 2^31"),
    (f"{S} growth_interval", 2.5, f"{SCALE}growth_interval = 2.5: allowed: a whole number, at least 1 and below 2^31"),
    (f"{S} growth_factor", 1, f"{SCALE}growth_factor = 1: allowed: a number, at least 1.001 and at most 2^127"),
    (
        f"{S} growth_factor",
        float("nan"),
        f"{SCALE}growth_factor = .nan: allowed: a number, at least 1.001 and at most 2^127",
    ),
    (S, {"kind": "static", "scale": 0}, f"{SCALE}scale = 0: allowed: {RANGE}"),
    # choices
    (f"{A} precision", "no", "tiny.yaml: arms[fp16].precision = 'no': allowed: 'fp32', 'tf32', 'fp16' or 'bf16'"),
    (f"{A} precision", False, "tiny.yaml: arms[fp16].precision = false: allowed: 'fp32', 'tf32', 'fp16' or 'bf16'"),
    (f"{A} precision", 16, "tiny.yaml: arms[fp16].precision = 16: allowed: 'fp32', 'tf32', 'fp16' or 'bf16'"),
    ("device", "gpu", "tiny.yaml: device = 'gpu': allowed: 'auto', 'cpu' or 'cuda'"),
    (f"{S} kind", "dynmic", f"{SCALE}kind = 'dynmic': allowed: dynamic, static, none"),
    (f"{S} kind", ["dynamic"], f"{SCALE}kind = ['dynamic']: allowed: dynamic, static, none"),
    (f"{O} name", "adam", "tiny.yaml: workloads[images].optimizer.name = 'adam': allowed: sgd, adamw"),
    (f"{S} always", "yes", f"{SCALE}always = 'yes': allowed: true or false"),
    # shapes
    (S, {}, f"{SCALE}kind: missing in {{}}; allowed: dynamic, static, none"),
    (S, "none", f"tiny.yaml: arms[fp16].loss_scaling = 'none': allowed: a mapping with the keys {DYNAMIC_KEYS}, scale"),
    ("arms 0", "fp32", f"tiny.yaml: arms[0] = 'fp32': allowed: a mapping with the keys {ARM_KEYS}"),
    ("arms", {"fp32": {}}, "tiny.yaml: arms = {'fp32': {}}: allowed: a list"),
    ("arms", [], "tiny.yaml: arms = []: allowed: at least 1 item"),
    ("workloads", [], "tiny.yaml: workloads = []: allowed: at least 1 item"),
    ("workloads", None, "tiny.yaml: workloads = null: allowed: a list"),
    ("seeds", [], "tiny.yaml: seeds = []: allowed: at least 1 item"),
    ("seeds", 3, "tiny.yaml: seeds = 3: allowed: a list"),
    (f"{A} workloads", [], "tiny.yaml: arms[fp16].workloads = []: allowed: at least 1 item"),
    (
        O,
        {"name": "adamw", "lr": 1, "betas": [0.9]},
        "tiny.yaml: workloads[images].optimizer.betas = [0.9]: allowed: at least 2 items",
    ),
    (
        O,
        {"name": "adamw", "lr": 1, "betas": [0.9, 1]},
        "tiny.yaml: workloads[images].optimizer.betas[1] = 1: allowed: a number, at least 0 and below 1",
    ),
    (
        O,
        {"name": "adamw", "lr": 1, "betas": [0.1, 0.2, 0.3]},
        "tiny.yaml: workloads[images].optimizer.betas = [0.1, 0.2, 0.3]: allowed: at most 2 items",
    ),
    (
        f"{W} schedule",
        "cosine",
        "tiny.yaml: workloads[images].schedule = 'cosine': allowed: a mapping with the keys name, warmup_steps",
    ),
    # missing
    (O, {"name": "sgd"}, "tiny.yaml: workloads[images].optimizer.lr: missing in {'name': 'sgd'}; it must be given"),
    (O, {"lr": 0.1}, "tiny.yaml: workloads[images].optimizer.name: missing in {'lr': 0.1}; allowed: sgd, adamw"),
    ("arms 1", {"precision": "bf16"}, "tiny.yaml: arms[1].name: missing in {'precision': 'bf16'}; it must be given"),
    # names
    ("arms 1 name", "fp32", "tiny.yaml: arms: name 'fp32' is used 2 times; each must be unique"),
    (
        "arms 1 name",
        "scaler_init_scale-1",
        "tiny.yaml: arms: name 'scaler_init_scale-1' is used 2 times; each must be unique",
    ),
    ("seeds", [0, 1, 0], "tiny.yaml: seeds = [0, 1, 0]: 0 is used 2 times; each must be unique"),
    ("threads", 1000000, "tiny.yaml: threads = 1000000: allowed: a whole number, above 0 and at most 2^10"),
    ("seeds_per_job", 0, "tiny.yaml: seeds_per_job = 0: allowed: a whole number, above 0 and below 2^31"),
    (f"{W} name", "a/b", f"tiny.yaml: workloads[a/b].name = 'a/b': {NAME}"),
    (f"{W} name", "a b", f"tiny.yaml: workloads[a b].name = 'a b': {NAME}"),
    (f"{W} name", "..", f"tiny.yaml: workloads[..].name = '..': {NAME}"),
    ("study", "", f"tiny.yaml: study = '': {NAME}"),
    ("study", "tiny\n", f"tiny.yaml: study = 'tiny\\n': {NAME}"),
    (
        "study",
        "reference",
        "tiny.yaml: study = 'reference': results/reference is kept for committed results; choose another name",
    ),
    ("study", "a" * 129, f"tiny.yaml: study = '{'a' * 76}...: 129 characters; allowed: at most 128"),
    ("study", 5, f"tiny.yaml: study = 5: {TEXT}"),
    ("study", date(2001, 2, 3), f"tiny.yaml: study = datetime.date(2001, 2, 3): {TEXT}"),
    # what must fit together
    (
        "reference",
        "fp23",
        "tiny.yaml: reference = 'fp23': workload 'images' has no such arm; "
        "its arms: fp32, bf16, fp16, static, scaler_init_scale-1, scaler_init_scale-2e10",
    ),
    ("arms 0 precision", "bf16", f"tiny.yaml: arms[fp32]: {PLAIN}"),
    ("arms 0 perturb", "ulp", f"tiny.yaml: arms[fp32]: {PLAIN}"),
    ("arms 0 inject", {"kind": "inf_gradient", "steps": [1]}, f"tiny.yaml: arms[fp32]: {PLAIN}"),
    ("arms 0 loss_scaling", {"kind": "dynamic", "always": True}, f"tiny.yaml: arms[fp32]: {PLAIN}"),
    (
        "arms 1 inject",
        {"kind": "inf_gradient", "steps": [3, 10]},
        "tiny.yaml: arms[bf16].inject.steps: 10 is past the end of workload 'images'; allowed: 0 to 9",
    ),
    ("arms 1 workloads", ["image"], "tiny.yaml: arms[bf16].workloads: 'image' is no workload; allowed: images"),
    (
        f"{W} schedule warmup_steps",
        11,
        "tiny.yaml: workloads[images].schedule.warmup_steps = 11: longer than the run; allowed: 0 to 10",
    ),
    # models, data and their arguments
    (
        f"{W} model",
        "resnet5",
        "tiny.yaml: workloads[images].model = 'resnet5': unknown (did you mean resnet50?); "
        "allowed: {models}, or package.module:function",
    ),
    (
        f"{W} data",
        "imagenet",
        "tiny.yaml: workloads[images].data = 'imagenet': unknown; allowed: {data}, or package.module:function",
    ),
    (
        f"{W} model",
        "no_such.models:build",
        "tiny.yaml: workloads[images].model = 'no_such.models:build': "
        "no Python module 'no_such.models' is installed or in this folder",
    ),
    (f"{W} model", 5, f"tiny.yaml: workloads[images].model = 5: {TEXT}"),
    (
        f"{W} model_args",
        {"num_class": 10},
        "tiny.yaml: workloads[images].model_args.num_class = 10: resnet50 takes no such argument "
        f"(did you mean num_classes?); allowed: {RESNET_KEYS}",
    ),
    (
        f"{W} model_args",
        {"num_classes": "10"},
        "tiny.yaml: workloads[images].model_args.num_classes = '10': "
        "allowed: a whole number of 64 bits, written without quotes",
    ),
    (
        f"{W} model_args",
        {5: 10},
        f"tiny.yaml: workloads[images].model_args.5 = 10: resnet50 takes no such argument; allowed: {RESNET_KEYS}",
    ),
    (f"{W} model_args", [1], "tiny.yaml: workloads[images].model_args = [1]: allowed: a mapping of keys to values"),
    (f"{W} model_args", None, "tiny.yaml: workloads[images].model_args = null: allowed: a mapping of keys to values"),
    ("arms 1 lr_factor", 0, "tiny.yaml: arms[bf16].lr_factor = 0: allowed: a number, above 0"),
    (
        "arms 1 lr_factor",
        1e-323,
        "tiny.yaml: arms[bf16].lr_factor = 1e-323: makes the learning rate of workload 'images' 0.0; "
        "allowed: what leaves it finite and above 0",
    ),
    ("arms 0 lr_factor", 2, f"tiny.yaml: arms[fp32]: {PLAIN}"),
    # sweeps
    (
        "sweeps 0 base",
        "fp61",
        "tiny.yaml: sweeps[scaler].base = 'fp61': no such arm; allowed: fp32, bf16, fp16, static",
    ),
    ("sweeps 0 over", {}, f"{OVER} = {{}}: allowed: at least 1 key"),
    (
        "sweeps 0 over",
        {"init_scal": [1]},
        f"{OVER}.init_scal: unknown key (did you mean init_scale?); allowed: precision, lr_factor, {DYNAMIC_KEYS}, scale",
    ),
    ("sweeps 0 over", {"init_scale": []}, f"{OVER}.init_scale = []: allowed: at least 1 item"),
    ("sweeps 0 over", {"init_scale": 5}, f"{OVER}.init_scale = 5: allowed: a list"),
    ("sweeps 0 over", {5: [1]}, f"{OVER}.5: a key must be text, in quotes where it looks like a number"),
    ("sweeps 0 over", {"init_scale": [1, 0]}, f"{OVER}: loss_scaling.init_scale = 0: allowed: {RANGE}"),
    ("sweeps 0 over", {"init_scale": [float("inf")]}, f"{OVER}: loss_scaling.init_scale = .inf: allowed: {RANGE}"),
    (
        "sweeps 0 over",
        {"precision": ["no"]},
        f"{OVER}: precision = 'no': allowed: 'fp32', 'tf32', 'fp16' or 'bf16'",
    ),
    (
        "sweeps 0 over",
        {"scale": [1]},
        f"{OVER}: loss_scaling.scale = 1: unknown key (did you mean init_scale?); allowed: {DYNAMIC_KEYS}",
    ),
    (
        "sweeps 0 over",
        {"init_scale": [4, 4.0]},
        "tiny.yaml: arms: name 'scaler_init_scale-4' is used 2 times; each must be unique",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), CASES, ids=[f"{path}={value!r:.40}" for path, value, _ in CASES])
def test_message(path, value, message, change):
    with pytest.raises(ConfigError) as caught:
        parse_study(change(path, value), "tiny.yaml")
    assert str(caught.value) == message.replace("{models}", MODELS).replace("{data}", DATA)


def test_a_workload_takes_all_seeds_of_a_job_or_none(change):
    settings = change("seeds_per_job", 2)
    settings["seeds"] = [0, 1, 2]
    settings["workloads"][0]["seeds"] = [2]
    parse_study(settings, "tiny.yaml")
    settings["workloads"][0]["seeds"] = [1, 2]
    with pytest.raises(ConfigError) as caught:
        parse_study(settings, "tiny.yaml")
    assert str(caught.value) == (
        "tiny.yaml: workloads[images].seeds: one job trains seeds 0, 1 (seeds_per_job = 2), and these are only some of "
        "them; allowed: all of a job's seeds or none"
    )


@pytest.mark.parametrize("key", ["study", "seeds", "workloads", "arms"])
def test_missing_key(key, settings):
    del settings[key]
    with pytest.raises(ConfigError) as caught:
        parse_study(settings, "tiny.yaml")
    assert str(caught.value) == f"tiny.yaml: {key}: missing; it must be given"


def test_a_workload_of_another_name_twice(settings):
    settings["workloads"].append(settings["workloads"][0])
    with pytest.raises(
        ConfigError, match=r"^tiny.yaml: workloads: name 'images' is used 2 times; each must be unique$"
    ):
        parse_study(settings, "tiny.yaml")


def test_two_sweeps_of_one_name(settings):
    settings["sweeps"].append(settings["sweeps"][0])
    with pytest.raises(ConfigError, match=r"^tiny.yaml: sweeps: name 'scaler' is used 2 times; each must be unique$"):
        parse_study(settings, "tiny.yaml")


def test_reference_arm_that_is_for_another_workload(settings):
    settings["workloads"].append({**settings["workloads"][0], "name": "more-images"})
    settings["arms"][0]["workloads"] = ["images"]
    with pytest.raises(ConfigError, match=r"^tiny.yaml: reference = 'fp32': workload 'more-images' has no such arm"):
        parse_study(settings, "tiny.yaml")


def test_each_fault_has_its_own_line(settings):
    settings["arms"][1]["precision"] = "no"
    settings["arms"][2]["loss_scaling"]["init_scale"] = 0
    settings["threads"] = "2"
    with pytest.raises(ConfigError) as caught:
        parse_study(settings, "tiny.yaml")
    lines = str(caught.value).splitlines()
    assert [line.split(" = ")[0] for line in lines] == [
        "tiny.yaml: threads",
        "tiny.yaml: arms[bf16].precision",
        "tiny.yaml: arms[fp16].loss_scaling.init_scale",
    ]
