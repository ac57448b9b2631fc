"""Where results come from: the code's commit, the versions and the system."""

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


@cache
def git_commit() -> tuple[str, bool]:
    """Return the commit of the code that runs, and whether its tracked files are as in it; ("unknown", False) without git.

    A file that git does not know, such as a config of the user's own, changes no code.
    """
    commit = git("rev-parse", "HEAD")
    status = git("status", "--porcelain", "--untracked-files=no")
    return (commit, status == "") if commit else ("unknown", False)


def git(*arguments: str) -> str | None:
    """Return what git prints about the repository of this code, or None where there is neither."""
    if not (REPOSITORY / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(REPOSITORY), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def versions(*packages: str) -> dict[str, str]:
    """Return the installed versions of packages, by name."""
    return {package: version(package) for package in packages}


def system() -> str:
    """Return the operating system and the machine, such as Linux-x86_64."""
    return f"{platform.system()}-{platform.machine()}"


def python_version() -> str:
    """Return Python's version."""
    return platform.python_version()
