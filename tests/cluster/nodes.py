"""Nodes that go away and come back, under a study through Slurm."""

from collections.abc import Callable
from pathlib import Path

from through_slurm import SLURM, Folder, jobs, slurm, wait_until

TABLES = "results/smoke/tables/arms.csv"
FORWARDS = 240


def in_partition(name: str) -> list[str]:
    return ["--default-resources", f"slurm_partition={name}", "turn=1"]


def set_state(node: str, state: str) -> None:
    slurm("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=test")


def test_a_job_waits_for_a_drained_node(
    folder: Callable[[str], Folder], one_run: Path, undisturbed: Callable[[], dict[str, bytes]]
) -> None:
    there = folder("drained")
    set_state("node2", "DRAIN")
    study = there.start(*SLURM, TABLES, "--configfile", one_run, *in_partition("drained"))
    wait_until(lambda: jobs(there), 180)
    expected = undisturbed()
    assert [(job.state, job.partition) for job in jobs(there)] == [("PENDING", "drained")]
    assert there.forwards() == 0
    set_state("node2", "RESUME")
    assert study.wait(timeout=1200) == 0, there.said()
    assert [job.state for job in jobs(there)] == ["COMPLETED"]
    assert there.tables() == expected


def test_a_job_whose_node_fails_is_sent_back_by_slurm_and_goes_on_from_its_checkpoint(
    folder: Callable[[str], Folder], one_run: Path, undisturbed: Callable[[], dict[str, bytes]]
) -> None:
    there = folder("failing")
    study = there.start(
        *SLURM, TABLES, "--configfile", one_run, *in_partition("failing"), "--retries", "0", SECONDS_A_FORWARD="0.3"
    )
    wait_until(there.checkpoints, 240)
    set_state("node3", "DOWN")
    wait_until(lambda: jobs(there)[0].state == "PENDING", 60)
    there.kill_jobs()
    set_state("node3", "RESUME")
    expected = undisturbed()
    assert study.wait(timeout=1200) == 0, there.said()
    assert [(job.state, job.restarts) for job in jobs(there)] == [("COMPLETED", "1")]
    assert there.tables() == expected
    assert there.forwards() < 2 * FORWARDS
