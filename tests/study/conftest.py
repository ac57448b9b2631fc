import copy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from halfscale.study.config import Study
from halfscale.study.runs import plan_study
from halfscale.study.spec import RunSpec

sys.path.append(str(Path(__file__).parent))  # so that tests can import tiny_study

from tiny_study import SETTINGS

Change = Callable[..., dict[str, Any]]


@pytest.fixture
def settings() -> dict[str, Any]:
    """A good config, the reader's to change."""
    return copy.deepcopy(SETTINGS)


@pytest.fixture
def change(settings) -> Change:
    """Set what stands at a path of keys, such as "arms 0 name", and return the config."""

    def set_at(path: str, value: Any) -> dict[str, Any]:
        *parents, last = [int(key) if key.isdigit() else key for key in path.split()]
        owner: Any = settings
        for key in parents:
            owner = owner[key]
        owner[last] = value
        return settings

    return set_at


@pytest.fixture
def run_ids() -> Callable[[dict[str, Any]], dict[str, list[str]]]:
    """The run ids of each arm of a config."""

    def ids(settings: dict[str, Any]) -> dict[str, list[str]]:
        by_arm: dict[str, list[str]] = {}
        for member in plan_study(Study.model_validate(settings)).members:
            by_arm.setdefault(member.arm, []).append(member.run_id)
        return by_arm

    return ids


@pytest.fixture
def spec(settings) -> RunSpec:
    """The FP16 run of seed 0."""
    plan = plan_study(Study.model_validate(settings))
    return next(plan.runs[member.run_id] for member in plan.members if member.arm == "fp16")


@pytest.fixture
def user_package(tmp_path, monkeypatch) -> Iterator[Callable[[str, str], Path]]:
    """Write a module into the working folder, where a user's own package lies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, source: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        return path

    yield write
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    sys.modules.pop("my_pkg", None)  # a folder with no __init__.py, and so with no file
