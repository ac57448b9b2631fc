"""pyproject.toml, the lock file, environment.yml and CITATION.cff say the same."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = [
    Requirement(line)
    for line in [
        *PROJECT["dependencies"],
        *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
    ]
]
PYTHONS = ["3.11", "3.12", "3.13"]


def read_lock() -> list[Requirement]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]


def read_yaml(name: str):
    return YAML(typ="safe").load(ROOT / name)


def pins(requirement: Requirement) -> list[Requirement]:
    """The lines of the lock for one dependency: several where the version depends on the platform."""
    name = canonicalize_name(requirement.name)
    return [pin for pin in read_lock() if canonicalize_name(pin.name) == name]


def version(pin: Requirement) -> str:
    (only,) = pin.specifier
    assert only.operator == "==", f"{pin} is no pin"
    return only.version


def test_every_line_of_the_lock_is_a_pin():
    lock = read_lock()
    assert len(lock) > 50
    assert all(version(pin) for pin in lock)


@pytest.mark.parametrize("requirement", DECLARED, ids=lambda requirement: requirement.name)
def test_what_is_declared_is_locked_within_its_range(requirement):
    found = pins(requirement)
    assert found, f"{requirement.name} is not in requirements.lock: run `make lock`"
    for pin in found:
        assert requirement.specifier.contains(version(pin)), f"{pin} is outside {requirement}"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("requirement", DECLARED, ids=lambda requirement: requirement.name)
def test_it_is_locked_once_for_each_python(requirement, python):
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    found = [pin for pin in pins(requirement) if pin.marker is None or pin.marker.evaluate(environment)]
    assert len(found) == 1


def test_the_parts_of_torch_fit_together():
    assert [version(pin) for pin in pins(Requirement("torch"))] == ["2.14.1"]
    assert [version(pin) for pin in pins(Requirement("torchvision"))] == ["0.29.1"]


def test_the_declared_range_holds_the_oldest_torch_that_is_supported():
    ranges = {requirement.name: requirement.specifier for requirement in DECLARED}
    assert ranges["torch"].contains("2.11.0")
    assert not ranges["torch"].contains("2.10.0")
    assert ranges["torchvision"].contains("0.26.0")


def test_every_supported_python_is_allowed():
    assert all(SpecifierSet(PROJECT["requires-python"]).contains(python) for python in PYTHONS)


def test_conda_gets_the_same_environment():
    dependencies = read_yaml("environment.yml")["dependencies"]
    (pip,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
    conda = {re.split("[=<>]", entry)[0]: entry for entry in dependencies if isinstance(entry, str)}
    assert conda.keys() == {"python", "pip", "make", "git", "tectonic"}  # Python packages come from the lock alone
    assert pip == ["-r requirements.lock", "-e ."]
    assert SpecifierSet(PROJECT["requires-python"]).contains(conda["python"].removeprefix("python="))


def test_citation_is_of_this_version():
    citation = read_yaml("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what CFF 1.2.0 demands
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_licence():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("MIT License\n\nCopyright (c) 2026 The halfscale authors\n")
    assert PROJECT["license"] == "MIT"
