"""Nodes that go away and come back, under a study through Slurm."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from through_slurm import SLURM, Folder, jobs, slurm, wait_until

ON_SPARE = ["--default-resources", "slurm_partition=spare", "turn=1"]
TABLES = "results/smoke/tables/arms.csv"
FORWARDS = 240


def set_state(state: str) -> None:
    slurm("scontrol", "update", "NodeName=node2", f"State={state}", "Reason=test")


@pytest.fixture
def node2() -> Iterator[None]:
    """The only node of the partition `spare`, in use whatever a test leaves it in."""
    yield
    if slurm("sinfo", "--noheader", "--nodes", "node2", "--format", "%T") not in ("idle", "mixed", "allocated"):
        set_state("RESUME")


@pytest.mark.usefixtures("node2")
def test_drained_then_failed(
    folder: Callable[[str], Folder], one_run: Path, undisturbed: Callable[[], dict[str, bytes]]
) -> None:
    """A drained node lets the job wait; one that fails under it sends it back to wait, and it goes on where it was."""
    there = folder("nodes")
    set_state("DRAIN")
    study = there.start(*SLURM, TABLES, "--configfile", one_run, *ON_SPARE, SECONDS_A_FORWARD="0.15")
    wait_until(lambda: jobs(there), 180)
    expected = undisturbed()
    assert [job.state for job in jobs(there)] == ["PENDING"]
    assert there.forwards() == 0
    set_state("RESUME")

    wait_until(there.checkpoints, 240)
    set_state("DOWN")
    wait_until(lambda: jobs(there)[0].state == "PENDING", 60)
    set_state("RESUME")
    assert study.wait(timeout=600) == 0, there.said()
    [job] = jobs(there)
    assert (job.state, job.partition, job.restarts) == ("COMPLETED", "spare", "1")
    assert there.tables() == expected
    assert there.forwards() < 2 * FORWARDS
