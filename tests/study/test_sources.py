import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from halfscale.study.config import Study
from halfscale.study.runs import plan_study
from halfscale.study.sources import PACKAGE, closure, instrument_digest, run_digest, sources_digest

FILES = {
    "__init__.py": "",
    "loop.py": "import pkg.parts.a\nfrom torch import nn\n",
    "parts/__init__.py": "",
    "parts/a.py": "def late():\n    from pkg.parts import b\n",
    "parts/b.py": "from ..loop import run\nfrom . import c\n",  # a cycle, and relative imports
    "parts/c.py": "C = 1\n",
    "figure.py": "import pkg.loop\n",
    "unrelated.py": "",
}


@pytest.fixture
def make_package(tmp_path):
    """Write a small package, some of its files otherwise, into a folder of its own."""

    def make(name: str, **changed: str) -> Path:
        for path, source in (FILES | changed).items():
            file = tmp_path / name / "pkg" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        return tmp_path / name / "pkg"

    return make


def names(files, package):
    return [file.relative_to(package).as_posix() for file in files]


def test_closure_follows_every_import_of_the_package_and_no_other(make_package):
    package = make_package("one")
    assert names(closure(["pkg.loop"], package), package) == [
        "__init__.py",
        "loop.py",
        "parts/__init__.py",
        "parts/a.py",
        "parts/b.py",
        "parts/c.py",
    ]
    assert names(closure(["pkg.parts.c"], package), package) == ["__init__.py", "parts/__init__.py", "parts/c.py"]
    assert names(closure(["pkg.parts"], package), package) == ["__init__.py", "parts/__init__.py"]


def test_the_digest_is_of_the_sources_and_not_of_where_they_lie(make_package):
    assert sources_digest(["pkg.loop"], make_package("one")) == sources_digest(["pkg.loop"], make_package("two"))


@pytest.mark.parametrize(
    "path", ["loop.py", "parts/a.py", "parts/b.py", "parts/c.py", "parts/__init__.py", "__init__.py"]
)
def test_an_edit_of_what_is_imported_moves_the_digest(path, make_package):
    before = sources_digest(["pkg.loop"], make_package("one"))
    assert sources_digest(["pkg.loop"], make_package("two", **{path: FILES[path] + "# edited\n"})) != before


@pytest.mark.parametrize("path", ["figure.py", "unrelated.py", "new.py"])
def test_an_edit_of_anything_else_does_not(path, make_package):
    before = sources_digest(["pkg.loop"], make_package("one"))
    assert sources_digest(["pkg.loop"], make_package("two", **{path: "# edited\n"})) == before


def test_a_file_that_takes_anothers_place_moves_the_digest(make_package):
    there = make_package("one", **{"parts/b.py": "B = 1\n", "parts/a.py": "import pkg.parts.b\n"})
    back = make_package("two", **{"parts/d.py": "B = 1\n", "parts/a.py": "import pkg.parts.b\n"})
    assert sources_digest(["pkg.loop"], there) != sources_digest(["pkg.loop"], back)


def test_the_order_of_the_modules_does_not_matter(make_package):
    package = make_package("one")
    there = sources_digest(["pkg.figure", "pkg.parts.c"], package)
    assert there == sources_digest(["pkg.parts.c", "pkg.figure", "pkg.figure"], package)


def test_no_such_module(make_package):
    with pytest.raises(ValueError, match=r"has no module 'pkg.lop'"):
        sources_digest(["pkg.lop"], make_package("one"))
    with pytest.raises(ValueError, match=r"has no module 'torch'"):
        sources_digest(["torch"])


def test_training_depends_on_the_loop_and_on_no_figure():
    found = names(closure(["halfscale.instruments.train"]), PACKAGE)
    assert {"instruments/train.py", "study/spec.py", "study/records.py", "numerics/upcast.py"} <= set(found)
    assert [name for name in found if name.startswith("analysis/") or name.startswith("cli/")] == []


def test_an_edit_of_a_figure_retrains_nothing_and_one_of_the_loop_does(tmp_path):
    def digest_after(name: str, edited: str) -> str:
        package = tmp_path / name / "halfscale"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        with (package / edited).open("a") as file:
            file.write("# edited\n")
        return sources_digest(["halfscale.instruments.train"], package)

    now = sources_digest(["halfscale.instruments.train"])
    assert digest_after("one", "analysis/style.py") == now
    assert digest_after("two", "instruments/train.py") != now
    assert digest_after("three", "numerics/loss_scaling.py") != now


def digest_of_run(settings) -> str:
    """The digest as a new process takes it."""
    instrument_digest.cache_clear()
    return run_digest(next(iter(plan_study(Study.model_validate(settings)).runs.values())))


def test_runs_of_one_model_and_data_share_a_digest(settings):
    runs = plan_study(Study.model_validate(settings)).runs.values()
    assert len({run_digest(spec) for spec in runs}) == 1


def test_another_model_or_data_is_another_digest(change, settings):
    before = digest_of_run(settings)
    other_data = digest_of_run(change("workloads 0 data", "gaussian"))
    other_model = digest_of_run(change("workloads 0 model", "transformer"))
    assert len({before, other_data, other_model}) == 3


def test_a_users_own_model_counts_with_its_content(user_package, change):
    source = user_package("mine.py", "def build(): ...\n")
    settings = change("workloads 0 model", "mine:build")
    before = digest_of_run(settings)
    source.write_text("def build(): pass\n")
    after = digest_of_run(settings)
    source.write_text("def build(): ...\n")
    assert before != after
    assert digest_of_run(settings) == before


def test_a_users_own_model_in_another_folder_is_the_same(tmp_path):
    code = (
        "from halfscale.study.sources import run_digest\n"
        "from halfscale.study.spec import RunSpec\n"
        "print(run_digest(RunSpec.model_construct(model='mine:build', data='digits')))"
    )
    printed = set()
    for name in ["here", "there"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text("def build(): ...\n")
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path / name, capture_output=True, text=True, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1
