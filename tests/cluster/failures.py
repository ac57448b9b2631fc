"""Studies through Slurm that do not go well: what is said, and what the study ends with."""

import re
from collections.abc import Callable
from pathlib import Path

from through_slurm import SLURM, Folder, jobs, slurm, wait_until

TABLES = "results/smoke/tables/arms.csv"
FORWARDS = 240


def test_a_crash_is_tried_once_more_then_fails_the_study_and_names_its_log(
    folder: Callable[[str], Folder], one_run: Path
) -> None:
    there = folder("crash")
    status = there.run(*SLURM, TABLES, "--configfile", one_run, CRASH="yes")
    assert status != 0
    assert [job.state for job in jobs(there)] == ["FAILED", "FAILED"]
    log = re.search(r"results/smoke/logs/train/mine-build_\S+\.log", there.said())
    assert log is not None, there.said()
    assert "too large by half" in (there.path / log[0]).read_text(encoding="utf-8")
    assert not list(there.path.glob("results/smoke/runs/*/summary.json"))
    # What Slurm's own side said of each try stays where the README says.
    logs = list(there.path.glob(".snakemake/slurm_logs/rule_train/*/*.log"))
    assert {file.stem for file in logs} == {job.id for job in jobs(there)}


def test_a_cancelled_job_goes_on_from_its_checkpoint(
    folder: Callable[[str], Folder], one_run: Path, undisturbed: Callable[[], dict[str, bytes]]
) -> None:
    there = folder("cancelled")
    study = there.start(*SLURM, TABLES, "--configfile", one_run, SECONDS_A_FORWARD="0.3")
    wait_until(there.checkpoints, 240)
    slurm("scancel", jobs(there)[0].id)
    expected = undisturbed()
    assert study.wait(timeout=1200) == 0, there.said()
    assert [job.state for job in jobs(there)] == ["CANCELLED", "COMPLETED"]
    assert there.tables() == expected
    assert there.forwards() < 2 * FORWARDS


def test_a_job_past_its_time_limit_goes_on_from_its_checkpoint(
    folder: Callable[[str], Folder], one_run: Path, undisturbed: Callable[[], dict[str, bytes]]
) -> None:
    """A limit of two minutes, on a busy machine enough for a start and a checkpoint, for a run of four; then one of ten."""
    there = folder("past its limit")
    arguments = [*SLURM, TABLES, "--configfile", one_run, "--retries", "0"]
    study = there.start(*arguments, "--set-resources", "train:runtime=2", SECONDS_A_FORWARD="1")
    expected = undisturbed()
    assert study.wait(timeout=1200) != 0
    assert [(job.state, job.limit) for job in jobs(there)] == [("TIMEOUT", "2:00")]
    assert "TIMEOUT" in there.said()
    assert there.checkpoints()
    before = there.forwards()

    assert there.run(*arguments, "--set-resources", "train:runtime=10") == 0, there.said()
    assert [job.limit for job in jobs(there)] == ["2:00", "10:00"]
    assert there.tables() == expected
    assert there.forwards() - before < FORWARDS
