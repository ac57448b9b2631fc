import subprocess
import sys

import pytest

from halfscale.study.entry_points import bind_arguments, find_entry_point, known_names

MODEL = """
import no_such_package  # so that importing this file would fail
from torch import nn

def build(*, width: int = 8, rate: float = 1, act=nn.ReLU, shape=(3, 4), bias: bool = True, kind: str = "a", extra=None):
    ...
"""


@pytest.fixture
def build(user_package):
    user_package("my_pkg/__init__.py", "raise RuntimeError('nobody may import me')")
    user_package("my_pkg/models.py", MODEL)
    return find_entry_point("model", "my_pkg.models:build")


def test_own_names_are_the_files():
    assert {"resnet50", "transformer"} <= set(known_names("model"))
    assert {"digits", "markov"} <= set(known_names("data"))
    assert "__init__" not in known_names("model") + known_names("data")


@pytest.mark.parametrize("kind", ["model", "data"])
def test_every_own_name_is_found(kind):
    for name in known_names(kind):
        assert find_entry_point(kind, name).function == "build"


def test_a_users_module_is_read_and_never_imported(build, tmp_path):
    assert build.source == tmp_path / "my_pkg" / "models.py"
    assert (build.module, build.function) == ("my_pkg.models", "build")
    assert "my_pkg" not in sys.modules


def test_a_module_in_the_working_folder_is_found_without_pythonpath(user_package, tmp_path):
    user_package("mine.py", "def build(): ...")
    code = "from halfscale.study.entry_points import find_entry_point as f; print(f('model', 'mine:build').source)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "mine.py")


def test_defaults_are_filled_in_where_json_can_hold_them(build):
    filled = bind_arguments(build, {})
    assert filled == {"width": 8, "rate": 1.0, "bias": True, "kind": "a", "extra": None}
    assert type(filled["rate"]) is float  # as `rate: 1` in a config is, so that both are one run


def test_given_arguments_replace_defaults(build):
    given = {"width": 9, "rate": 2, "act": "gelu", "shape": [1, 2], "extra": {"a": [1.5, None]}}
    assert bind_arguments(build, given) == {"bias": True, "kind": "a", **given}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 1.5}, "model_args.width = 1.5: allowed: a whole number of 64 bits, written without quotes"),
        ({"width": True}, "model_args.width = true: allowed: a whole number of 64 bits, written without quotes"),
        ({"width": 2**63}, f"model_args.width = {2**63}: allowed: a whole number of 64 bits, written without quotes"),
        ({"rate": "1"}, "model_args.rate = '1': allowed: a finite number, written without quotes"),
        ({"rate": float("nan")}, "model_args.rate = .nan: allowed: a finite number, written without quotes"),
        ({"bias": 1}, "model_args.bias = 1: allowed: true or false"),
        ({"kind": None}, "model_args.kind = null: allowed: text, in quotes where it looks like a number or a date"),
        (
            {"extra": [float("inf")]},
            "model_args.extra = [inf]: allowed: text, finite numbers, true, false, null, and lists and mappings of them",
        ),
        ({"extra": {1: 2}}, "model_args.extra = {1: 2}: a key must be text, in quotes where it looks like a number"),
        (
            {"witdh": 9},
            "model_args.witdh = 9: my_pkg.models:build takes no such argument (did you mean width?); "
            "allowed: width, rate, act, shape, bias, kind, extra",
        ),
    ],
)
def test_bad_arguments(given, message, build):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        bind_arguments(build, given)
    assert str(caught.value) == message


def test_an_argument_with_no_default_must_be_given(user_package):
    user_package("needy.py", "def build(seed, /, size: int, *, depth: int): ...")
    data = find_entry_point("data", "needy:build")
    with pytest.raises(ValueError, match=r"^data_args.depth: missing; needy:build needs it; allowed: size, depth$"):
        bind_arguments(data, {"size": 1})
    assert bind_arguments(data, {"size": 1, "depth": 2}) == {"size": 1, "depth": 2}


def test_the_seed_is_not_the_configs_to_give(user_package):
    user_package("seeded.py", "def build(seed, /): ...")
    with pytest.raises(ValueError, match=r"data_args.seed = 1: seeded:build takes no such argument; allowed: none$"):
        bind_arguments(find_entry_point("data", "seeded:build"), {"seed": 1})


def test_a_class_is_called_with_what_its_init_takes(user_package):
    user_package("classy.py", "class Net:\n    def __init__(self, width: int = 3, **options): ...\n")
    assert bind_arguments(find_entry_point("model", "classy:Net"), {"any": [1]}) == {"width": 3, "any": [1]}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_pkg.models:make", "{source}: no function or class 'make' is defined there"),
        ("my_pkg.models:", "{source}: no function or class '' is defined there"),
        ("my_pkg.model:build", "no Python module 'my_pkg.model' is installed or in this folder"),
        ("my_pkg.models.deep:build", "no Python module 'my_pkg.models.deep' is installed or in this folder"),
        ("math:sqrt", "no Python module 'math' is installed or in this folder"),
        (":build", "no Python module '' is installed or in this folder"),
        ("..:build", "no Python module '..' is installed or in this folder"),
        (".models:build", "no Python module '.models' is installed or in this folder"),
        ("my_pkg/models:build", "no Python module 'my_pkg/models' is installed or in this folder"),
    ],
)
def test_a_name_that_leads_nowhere(name, message, build):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        find_entry_point("model", name)
    assert str(caught.value) == f"model = {name!r}: {message.format(source=build.source)}"


def test_a_file_that_is_no_python(user_package):
    source = user_package("broken.py", "def build(:")
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        find_entry_point("model", "broken:build")
    assert str(caught.value).startswith(f"model = 'broken:build': {source}: invalid syntax")


def test_an_edit_of_the_signature_is_seen(user_package):
    source = user_package("edited.py", "def build(*, width: int = 3): ...")
    assert bind_arguments(find_entry_point("model", "edited:build"), {}) == {"width": 3}
    source.write_text("def build(*, width: int = 30): ...")
    assert bind_arguments(find_entry_point("model", "edited:build"), {}) == {"width": 30}
