"""The commit that results carry, and whether the code was what it says."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from halfscale.machine import provenance


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A function that runs git in a repository of one commit, which is taken for that of the code."""

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "code.py").write_text("1\n")
    git("add", "code.py")
    git("commit", "-m", "one")
    monkeypatch.setattr(provenance, "REPOSITORY", tmp_path)
    provenance.git_commit.cache_clear()
    yield git
    provenance.git_commit.cache_clear()


def test_a_file_that_git_does_not_know_changes_no_code(repository: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("study: mine\n")
    commit, clean = provenance.git_commit()
    assert len(commit) == 40
    assert clean


def test_an_edited_file_is_an_uncommitted_change(repository: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("2\n")
    assert provenance.git_commit()[1] is False


def test_without_git_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "REPOSITORY", tmp_path / "nowhere")
    provenance.git_commit.cache_clear()
    assert provenance.git_commit() == ("unknown", False)
    provenance.git_commit.cache_clear()
