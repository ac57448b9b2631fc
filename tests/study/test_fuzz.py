"""Whatever is done to a good config, it makes a study that plans, or a ConfigError; never another exception."""

import copy
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from tiny_study import SETTINGS

from halfscale.study.load import ConfigError, load_study, parse_study
from halfscale.study.runs import plan_study
from halfscale.study.spec import RunSpec

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, 2**31, 2**63, 10**400]),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(
        ["fp16", "fp32", "dynamic", "static", "none", "adamw", "images", "markov", "os:walk", "a.b:c", ":"]
    ),
    st.sampled_from(["\ud800", "\0:\0", "e" * 200, "1e-4", "2**16"]),
    st.sampled_from([datetime.date(2001, 2, 3), b"\xff", (1, 2), {1}]),  # a YAML reader makes these too
)
keys = st.one_of(
    st.sampled_from(["name", "kind", "init_scale", "scale", "precision", "always", "steps", "inject", "over"]),
    st.text(max_size=4),
    st.integers(),
    st.none(),
)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3))
)


def places(node):
    """Every (owner, key) in a config."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield node, key
        yield from places(value)


@st.composite
def mutated(draw):
    config = copy.deepcopy(SETTINGS)
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(config))
        if not found:
            break
        owner, key = found[draw(st.integers(0, len(found) - 1))]
        match draw(st.sampled_from(["replace", "replace", "drop", "add", "swap", "repeat"])):
            case "replace":
                owner[key] = draw(values)
            case "drop":
                del owner[key]
            case "add" if isinstance(owner, dict):
                owner[draw(keys)] = draw(values)
            case "swap":
                other, elsewhere = found[draw(st.integers(0, len(found) - 1))]
                owner[key] = copy.deepcopy(other[elsewhere])
            case "repeat" if isinstance(owner, list):
                owner.append(copy.deepcopy(owner[key]))
    return config


def plans_or_refuses(load) -> bool:
    """Return whether the config made a study; check what it made, or how it was refused."""
    try:
        study = load()
    except ConfigError as error:
        for line in str(error).splitlines():
            assert line.startswith("fuzz: ")
            assert len(line.encode()) < 1000
        return False
    for spec in plan_study(study).runs.values():
        assert RunSpec.model_validate_json(spec.canonical()) == spec
    return True


@settings(max_examples=300, deadline=None, derandomize=True)
@given(config=mutated())
def test_any_change_of_a_config(config):
    plans_or_refuses(lambda: parse_study(config, "fuzz"))


@pytest.fixture(scope="module")
def good_text(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("good") / "tiny.yaml"
    YAML(typ="safe", pure=True).dump(SETTINGS, path)
    return path.read_text()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_change_of_a_files_text(data, good_text, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    start = data.draw(st.integers(0, len(good_text)))
    end = data.draw(st.integers(start, min(start + 8, len(good_text))))
    inserted = data.draw(st.one_of(st.text(max_size=4), st.text(alphabet="{}[]:,-#&*!|>'\"%@` \n\t", max_size=4)))
    path.write_text(good_text[:start] + inserted + good_text[end:], encoding="utf-8", errors="replace")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        path.rename(path.with_name("fuzz"))
        plans_or_refuses(lambda: load_study(["fuzz"]))


def test_the_config_that_is_changed_is_good():
    assert plans_or_refuses(lambda: parse_study(copy.deepcopy(SETTINGS), "fuzz"))
