"""Where LaTeX is missing: it is installed if that may be, else one line says what to do, and the study goes on."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "workflow" / "scripts" / "get_latex.sh"
SHELL = shutil.which("sh")
ADVICE = "No latexmk. For the paper, install it: apt-get install latexmk "


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of the only programs there are: a user who is not root, and none of LaTeX, apt-get or sudo."""
    for name in ("mktemp", "rm", "tail", "env", "sh"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    add(tmp_path, "id", "echo 1000")
    return tmp_path


def add(programs: Path, name: str, body: str) -> None:
    (programs / name).write_text(f"#!{SHELL}\n{body}\n", encoding="utf-8")
    (programs / name).chmod(0o755)


def said(programs: Path) -> list[str]:
    """What the script prints; it never fails."""
    assert SHELL is not None
    done = subprocess.run([SHELL, str(SCRIPT)], env={"PATH": str(programs)}, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_an_engine_that_is_there_is_not_talked_about(programs: Path) -> None:
    add(programs, "latexmk", "exit 1")
    assert said(programs) == []


def test_without_any_the_study_goes_on_without_the_paper(programs: Path) -> None:
    (line,) = said(programs)
    assert line.startswith(ADVICE)
    assert line.endswith("Going on without the paper.")


def test_tectonic_will_do(programs: Path) -> None:
    add(programs, "tectonic", "exit 1")
    (line,) = said(programs)
    assert line.startswith(ADVICE)
    assert line.endswith("Going on with tectonic.")


def test_one_who_is_not_root_is_asked_for_no_password(programs: Path) -> None:
    add(programs, "apt-get", "echo installed >> installed")
    add(programs, "sudo", "exit 1")  # as `sudo -n` does where a password is needed
    (line,) = said(programs)
    assert line.endswith("Going on without the paper.")


def test_an_installation_that_fails_says_why(programs: Path) -> None:
    add(programs, "id", "echo 0")
    add(programs, "apt-get", "echo first; echo E: no network; exit 100")
    installing, failed, advice = said(programs)
    assert installing.startswith("Installing LaTeX")
    assert failed == "apt-get failed: E: no network"
    assert advice.startswith(ADVICE)
