import sys
from itertools import count

import pytest
from torch import nn

from halfscale.study.entry_points import known_names
from halfscale.workloads.registry import WorkloadError, build_data, build_model

numbers = count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes a user's module and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)
    written = []

    def write(text):
        name = f"users_own_{next(numbers)}"
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_halfscale_has_these_workloads():
    assert known_names("model") == ["convnet", "resnet50", "transformer"]
    assert known_names("data") == ["digits", "gaussian", "markov"]


@pytest.mark.parametrize("name", known_names("model"))
def test_every_model_builds_with_its_defaults(name):
    assert isinstance(build_model(name, {}), nn.Module)


@pytest.mark.parametrize("name", known_names("data"))
def test_every_data_set_builds_with_its_defaults(name):
    assert len(build_data(name, 0, {}).fingerprint) == 64


def test_arguments_reach_the_function():
    assert build_model("transformer", {"vocabulary": 5, "width": 8}).head.out_features == 5


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"did you mean .?resnet50"):
        build_model("resnet5", {})


def test_a_users_model_is_built(module):
    name = module("from torch import nn\ndef small(*, width: int = 3): return nn.Linear(width, 1)\n")
    assert build_model(f"{name}:small", {"width": 7}).in_features == 7


def test_a_users_data_gets_the_seed_first(module):
    name = module(
        "class Data:\n"
        "    fingerprint, floor = 'f', None\n"
        "    def __init__(self, seed, n): self.seed, self.n = seed, n\n"
        "    def batch(self, index, size): ...\n"
        "    def evaluation(self, size): ...\n"
        "def build(seed, /, *, n: int = 1): return Data(seed, n)\n"
    )
    data = build_data(f"{name}:build", 3, {"n": 4})
    assert (data.seed, data.n) == (3, 4)


def test_a_function_that_raises_is_named(module):
    name = module("def build(): return 1 / 0\n")
    with pytest.raises(WorkloadError, match=f"{name}:build raised ZeroDivisionError: division by zero"):
        build_model(f"{name}:build", {})


def test_a_module_that_does_not_import_is_named(module):
    name = module("import no_such_module_at_all\ndef build(): ...\n")
    with pytest.raises(WorkloadError, match=f"{name}:build raised ModuleNotFoundError"):
        build_model(f"{name}:build", {})


def test_a_model_that_is_none_is_named(module):
    name = module("def build(): return 'a string'\n")
    with pytest.raises(WorkloadError, match=f"'{name}:build' returned str, not a torch.nn.Module"):
        build_model(f"{name}:build", {})


def test_data_that_is_none_is_named(module):
    name = module("def build(seed, /): return seed\n")
    with pytest.raises(WorkloadError, match=f"'{name}:build' returned int, which has no fingerprint, no floor"):
        build_data(f"{name}:build", 0, {})


def test_bad_values_are_told_with_the_name():
    with pytest.raises(WorkloadError, match=r"'transformer': .* width 10 is not divisible by heads 4"):
        build_model("transformer", {"width": 10})
