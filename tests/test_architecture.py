"""Arrows point one way (who may import whom), the CLI starts light, and files stay small."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "halfscale"
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 350

MAY_IMPORT = {
    "errors": set(),
    "machine": set(),
    "progress": set(),
    "study": {"errors", "study"},
    "numerics": {"errors", "machine", "numerics", "study"},
    "workloads": {"errors", "machine", "numerics", "study", "workloads"},
    "instruments": {"errors", "machine", "numerics", "study", "workloads", "instruments"},
    "analysis": {"errors", "machine", "study", "analysis"},
}
"""By part of the package, the parts it may import. The CLI may import all of them, and nobody the CLI."""

FORMATS = "halfscale.numerics.formats"
"""Constants alone, without torch: analysis may import them."""


def imports(tree: ast.AST) -> set[str]:
    """The full names that a module imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that one can see where they lead"
            found.add(node.module)
            if node.module == "halfscale":
                found |= {f"halfscale.{alias.name}" for alias in node.names}
    return found


def imports_of(file: Path) -> set[str]:
    return imports(ast.parse(file.read_text(encoding="utf-8")))


def part_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def modules_of(part: str) -> list[str]:
    return [name_of(file) for file in FILES if part_of(file) == part]


def ours(names: set[str]) -> set[str]:
    """The parts of the package among some imported names."""
    return {name.split(".")[1] for name in names if name.startswith("halfscale.")}


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh Python has loaded after some code."""
    code += "\nimport sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def by_name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def test_imports_are_seen_wherever_they_stand():
    tree = ast.parse("import a.b\nfrom halfscale import cli\ndef f():\n    from halfscale.study.arm import Arm")
    assert imports(tree) == {"a.b", "halfscale", "halfscale.cli", "halfscale.study.arm"}
    assert ours(imports(tree)) == {"cli", "study"}


def test_every_part_has_its_rule():
    assert {part_of(file) for file in FILES} - {"__init__", "__main__", "cli"} == MAY_IMPORT.keys()


@pytest.mark.parametrize("file", FILES, ids=by_name)
def test_arrows_point_one_way(file):
    part = part_of(file)
    if part not in ("cli", "__main__"):
        names = {name for name in imports_of(file) if part != "analysis" or not name.startswith(FORMATS)}
        assert ours(names) <= MAY_IMPORT.get(part, set())


@pytest.mark.parametrize("file", [file for file in FILES if part_of(file) in ("study", "analysis")], ids=by_name)
def test_study_and_analysis_name_no_torch(file):
    assert {name for name in imports_of(file) if name.split(".")[0] in ("torch", "torchvision")} == set()


@pytest.mark.parametrize("part", ["study", "analysis"])
def test_study_and_analysis_load_no_torch(part):
    modules = modules_of(part)
    assert len(modules) > 5
    loaded = loaded_by("\n".join(f"import {module}" for module in modules))
    assert set(modules) <= loaded
    assert {"torch", "torchvision"} & loaded == set()


def test_planning_a_study_loads_no_torch():
    plan = "from halfscale.study.load import load_study; from halfscale.study.runs import plan_study\n"
    config = PACKAGE.parents[1] / "config" / "config.yaml"
    assert "torch" not in loaded_by(f"{plan}assert plan_study(load_study([{str(config)!r}])).runs")


def test_the_cli_starts_light():
    heavy = {"torch", "torchvision", "pandas", "pyarrow", "matplotlib", "seaborn", "scipy", "statsmodels", "sklearn"}
    loaded = loaded_by("import halfscale.cli")
    assert "halfscale.cli" in loaded
    assert heavy & loaded == set()


@pytest.mark.parametrize("file", FILES, ids=by_name)
def test_files_are_small(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= LONGEST
