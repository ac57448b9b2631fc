import json

import pytest
from pydantic import TypeAdapter

from halfscale.study.load import ConfigError, load_study, overlay
from halfscale.study.model import Name
from halfscale.study.runs import plan_study

GOOD = """
study: tiny
seeds: [0]
workloads:
  - name: images
    model: resnet50
    data: digits
    batch_size: 4
    steps: 10
    optimizer: {name: sgd, lr: LR}
arms:
  - {name: fp32, precision: fp32}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def to_file(text: str | bytes, name: str = "tiny.yaml") -> str:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return to_file


def refusal(*files: str, **overrides: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load_study(files, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; a study is a mapping of keys to values"),
        ("# nothing yet\n", "is empty; a study is a mapping of keys to values"),
        ("- study: tiny\n", "holds [{'study': 'tiny'}]; a study is a mapping of keys to values"),
        ("study tiny", "holds 'study tiny'; a study is a mapping of keys to values"),
        (
            "seeds: [0, 1",
            "is not YAML: line 1, column 13: while parsing a flow sequence expected ',' or ']', but got '<stream end>'",
        ),
        (
            "study: a\nstudy: b\n",
            "is not YAML: line 2, column 1: while constructing a mapping "
            'found duplicate key "study" with value "b" (original value: "a")',
        ),
        (
            "study: a\n---\nstudy: b\n",
            "is not YAML: line 2, column 1: expected a single document in the stream but found another document",
        ),
        (
            "study: !!python/name:os.system\n",
            "is not YAML: line 1, column 8: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("study: *name\n", "is not YAML: line 1, column 8: found undefined alias 'name'"),
        ("study: &a [*a]\n", "is not YAML: Circular reference detected"),
        ("study: 2001-13-45\n", "is not YAML: month must be in 1..12"),
        ("a: " + "[" * 3000, "is nested too deep"),
        ("study: café".encode("latin-1"), "cannot be read: it is not UTF-8 text"),
        (bytes(range(256)), "cannot be read: it is not UTF-8 text"),
    ],
)
def test_file_that_is_no_config(text, message, write):
    assert refusal(write(text)) == f"tiny.yaml: {message}"


def test_missing_file(tmp_path):
    assert refusal(f"{tmp_path}/no.yaml") == f"{tmp_path}/no.yaml: cannot be read: No such file or directory"


def test_folder_in_place_of_a_file(tmp_path):
    assert refusal(str(tmp_path)) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize("text", ["1e-4", "1.0e-4", "0.0001", "1E-4", "1.e-4"])
def test_one_number_written_in_many_ways_is_one_run(text, write):
    plan = plan_study(load_study([write(GOOD.replace("LR", text))]))
    assert plan.study.workloads[0].optimizer.lr == 0.0001
    assert list(plan.runs) == ["resnet50_fp32_ce865d648a_seed0"]


@pytest.mark.parametrize("text", ["'1e-4'", '"1e-4"', "nan", "2**-13", "1e-4f"])
def test_text_is_no_number(text, write):
    shown = text.strip("'\"")
    assert refusal(write(GOOD.replace("LR", text))).startswith(
        f"tiny.yaml: workloads[images].optimizer.lr = '{shown}': this is text; allowed: a number"
    )


@pytest.mark.parametrize("word", ["no", "off", "yes", "n"])
def test_words_are_text_not_booleans(word, write):
    text = GOOD.replace("LR", "0.1").replace("precision: fp32", f"precision: {word}")
    assert refusal(write(text)) == (
        f"tiny.yaml: arms[fp32].precision = '{word}': allowed: 'fp32', 'tf32', 'fp16' or 'bf16'"
    )


def test_json_is_a_config_too(settings, write):
    assert load_study([write(json.dumps(settings, indent="\t"), "tiny.json")]).study == "tiny"


def test_byte_order_mark_is_ignored(write):
    assert load_study([write(b"\xef\xbb\xbf" + GOOD.replace("LR", "0.1").encode())]).study == "tiny"


def test_a_second_file_replaces_lists_and_merges_mappings(write):
    below = write(GOOD.replace("LR", "0.1"))
    above = write("arms:\n  - {name: plain, precision: fp32}\nreference: plain\nthreads: 2\n", "above.yaml")
    study = load_study([below, above])
    assert [arm.name for arm in study.arms] == ["plain"]
    assert (study.study, study.threads) == ("tiny", 2)


def test_overlay():
    below = {"a": {"b": 1, "c": [1, 2], "d": {"e": 1}}, "f": 1}
    above = {"a": {"c": [3], "d": {"g": 2}}, "f": {"h": 1}}
    assert overlay(below, above) == {"a": {"b": 1, "c": [3], "d": {"e": 1, "g": 2}}, "f": {"h": 1}}
    assert below == {"a": {"b": 1, "c": [1, 2], "d": {"e": 1}}, "f": 1}


def test_overrides_lie_above_every_file(write):
    file = write(GOOD.replace("LR", "0.1"))
    assert load_study([file], {"seeds": [7]}).seeds == [7]
    assert refusal(file, seeds=[]) == "overrides: seeds = []: allowed: at least 1 item"


def test_of_several_files_the_one_at_fault_is_named(write):
    below = write(GOOD.replace("LR", "-1"))
    above = write("threads: 0\nseeds: [1]\n", "above.yaml")
    assert refusal(below, above).splitlines() == [
        "above.yaml: threads = 0: allowed: a whole number, above 0 and at most 2^10",
        "tiny.yaml: workloads[images].optimizer.lr = -1: allowed: a number, at least 2^-126 and at most 2^127",
    ]


def test_what_no_single_file_is_at_fault_for_names_them_all(write):
    below = write(GOOD.replace("LR", "0.1"))
    above = write("reference: plain\n", "above.yaml")
    assert refusal(below, above).startswith(
        "tiny.yaml + above.yaml: reference = 'plain': workload 'images' has no such arm"
    )


@pytest.mark.parametrize("name", ["w" * 21, "9_." + "-" * 30, "ab" * 20])
def test_a_name_that_snakemake_takes_for_endless_is_refused(name):
    with pytest.raises(ValueError, match="stands twenty times"):
        TypeAdapter(Name).validate_python(name)


@pytest.mark.parametrize("name", ["w" * 19, "ab" * 19, "x" * 20 + "-1", "fp16-init-2e24"])
def test_other_names_are_names(name):
    assert TypeAdapter(Name).validate_python(name) == name
