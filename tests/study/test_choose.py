import pytest
from ruamel.yaml import YAML

from halfscale.study.choose import choose_run, parse_spec
from halfscale.study.load import ConfigError
from halfscale.study.spec import RunSpec


def refusal(function, *arguments) -> str:
    with pytest.raises(ConfigError) as caught:
        function(*arguments)
    return str(caught.value)


def test_spec_as_text_and_as_a_file(spec, tmp_path):
    (tmp_path / "spec.json").write_text(spec.canonical())
    assert parse_spec(spec.canonical(), RunSpec) == spec
    assert parse_spec(str(tmp_path / "spec.json"), RunSpec) == spec


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"steps":10', '"steps":0', "--spec: steps = 0: allowed: a whole number, above 0 and below 2^31"),
        ('"seed":0', '"seed":-1', "--spec: seed = -1: allowed: a whole number, at least 0 and below 2^31"),
        ('"seed":0,', "", "--spec: seed: missing; it must be given"),
        ('"seed":', '"sed":0,"seed":', "--spec: sed = 0: unknown key (did you mean seed?); allowed: spec, model, "),
        ('"growth_interval":5', '"growth_interval":0', "--spec: loss_scaling.growth_interval = 0: allowed: a whole"),
        ('"lr":0.01', '"lr":NaN', "--spec: optimizer.lr = .nan: allowed: a number, at least 2^-126 and at most 2^127"),
        ("v1", "v0", "--spec: spec = 'halfscale-run-v0': allowed: 'halfscale-run-v1'"),
        ("}", "", "--spec: Invalid JSON: EOF while parsing"),
    ],
)
def test_a_bad_spec(old, new, message, spec):
    text = spec.canonical()
    assert old in text
    assert refusal(parse_spec, text.replace(old, new), RunSpec).startswith(message)


def test_a_spec_that_is_no_file(tmp_path):
    assert refusal(parse_spec, str(tmp_path), RunSpec) == f"{tmp_path}: cannot be read: Is a directory"
    (tmp_path / "a").write_bytes(b"\xff")
    assert refusal(parse_spec, f"{tmp_path}/a", RunSpec) == f"{tmp_path}/a: cannot be read: it is not UTF-8 text"


def test_a_run_by_workload_arm_and_seed(settings, spec, tmp_path):
    YAML(typ="safe").dump(settings, tmp_path / "tiny.yaml")
    config = [tmp_path / "tiny.yaml"]
    assert choose_run(config, "images", "fp16", 0) == spec
    assert choose_run(config, "images", "fp16", None) == spec
    assert choose_run(config, "images", "fp16", 1).seed == 1
    assert refusal(choose_run, config, "image", "fp16", None).startswith(
        "--workload image: this config has none of that name here (did you mean images?); allowed: images"
    )
    assert refusal(choose_run, config, "images", "fp61", None).startswith(
        "--arm fp61: this config has none of that name here (did you mean fp16?); allowed: fp32, "
    )
    message = refusal(choose_run, config, "images", "fp16", 7)
    assert message == "--seed 7: this config has none of that name here; allowed: 0, 1"
