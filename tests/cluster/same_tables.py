"""The smoke study through Slurm: the same tables as here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from through_slurm import LOCAL, SLURM, Folder, edited, jobs

TABLES = "results/smoke/tables/arms.csv"
ARMS = ("fp32", "bf16", "fp16", "fp16-injected", "fp32-injected")
RUNS = 7


def shorten(settings: dict[str, Any]) -> None:
    """Leave one seed, and those arms of which each ends in another way."""
    settings["seeds"] = [0]
    settings["arms"] = [arm for arm in settings["arms"] if arm["name"] in ARMS]


def test_the_smoke_study_ends_with_the_same_tables(folder: Callable[[str], Folder], tmp_path: Path) -> None:
    config = edited(tmp_path, shorten)
    here, alone, grouped = folder("here"), folder("through Slürm"), folder("through Slurm, in groups")
    arguments = [TABLES, "--configfile", config]
    studies = {
        here: here.start(*LOCAL, *arguments),
        alone: alone.start(*SLURM, *arguments),
        grouped: grouped.start(*SLURM, *arguments, "--groups", "train=short", "--group-components", "short=4"),
    }
    for study, process in studies.items():
        assert process.wait(timeout=600) == 0, study.said()
    tables = {f"{name}.{suffix}" for name in ("runs", "arms") for suffix in ("csv", "tex")}
    assert set(here.tables()) == tables | {"gaps.csv", "scaling.tex", "traces.parquet"}
    assert alone.tables() == here.tables()
    assert grouped.tables() == here.tables()

    one_run = ("COMPLETED", "1", "3000M", "N/A")
    assert [(job.state, job.cpus, job.memory, job.gpus) for job in jobs(alone)] == [one_run] * RUNS
    assert {job.limit for job in jobs(alone)} == {"1:00:00"}
    # The runs of a group go one after another: as wide as one, as long as all.
    assert [(job.state, job.cpus, job.memory, job.gpus) for job in jobs(grouped)] == [one_run] * 2
    assert {job.limit for job in jobs(grouped)} == {"4:00:00", "3:00:00"}
