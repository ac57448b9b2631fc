"""Where a study's runs were computed and by which code: environments.json, which every figure and the archive cite."""

import json
from pathlib import Path

from pydantic import ValidationError

from halfscale.study.model import Model
from halfscale.study.records import Environment, RecordError, Summary
from halfscale.study.whole import write_text


class Share(Model):
    """An environment, and how many of a study's distinct runs were computed in it."""

    runs: int
    environment: Environment


class Environments(Model):
    """The distinct environments of a study's runs, in the order of the plan: one, unless it was moved or the code changed."""

    shares: list[Share]

    @property
    def devices(self) -> list[str]:
        """The names of the devices."""
        return sorted({share.environment.device for share in self.shares})

    @property
    def torch(self) -> list[str]:
        """The versions of PyTorch."""
        return sorted({share.environment.torch for share in self.shares})

    @property
    def commits(self) -> list[str]:
        """The commits of the code that the runs were computed with."""
        return sorted({share.environment.commit for share in self.shares})

    @property
    def clean(self) -> bool:
        """Whether the code of every run was what its commit holds."""
        return all(share.environment.clean for share in self.shares)


class Counting:
    """Counts the distinct runs of each environment while their summaries go by."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.runs: dict[str, int] = {}

    def add(self, summary: Summary) -> None:
        """Count a run, once however many arms it stands for."""
        if summary.run_id not in self.seen:
            self.seen.add(summary.run_id)
            key = summary.environment.model_dump_json()
            self.runs[key] = self.runs.get(key, 0) + 1

    def result(self) -> Environments:
        """Return what was counted."""
        return Environments(
            shares=[
                Share(runs=runs, environment=Environment.model_validate_json(key)) for key, runs in self.runs.items()
            ]
        )


def write_environments(environments: Environments, folder: Path) -> None:
    """Write a study's environments.json."""
    write_text(folder / "environments.json", json.dumps(environments.model_dump(), indent=1) + "\n")


def read_environments(folder: Path) -> Environments:
    """Read a study's environments.json.

    Raises:
        RecordError: it is missing or not whole.
    """
    path = folder / "environments.json"
    try:
        return Environments.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}; `halfscale collect` writes it") from None
    except (ValidationError, UnicodeDecodeError):
        raise RecordError(f"{path}: is no whole record; `halfscale collect` writes it anew") from None
