"""What a job asks of Slurm, and what it is given."""

from collections.abc import Callable
from pathlib import Path

from through_slurm import SLURM, Folder, jobs, wait_until

TWO_JOBS = """
rule all:
    input: "first", "second"

rule visible:
    output: "{job}"
    resources: gpu=1, mem_mb=100, runtime=5
    shell: '''
        echo "$CUDA_VISIBLE_DEVICES" > seen_by_{wildcards.job}
        for _ in $(seq 900); do
            if [ -e seen_by_first ] && [ -e seen_by_second ]; then cp seen_by_{wildcards.job} {output}; exit 0; fi
            sleep 0.2
        done
        exit 1
    '''
"""


def test_a_run_on_a_gpu_asks_for_what_its_rule_states(folder: Callable[[str], Folder], one_run: Path) -> None:
    there = folder("cuda")
    there.start(
        *SLURM, "--configfile", one_run, "--config", "device=cuda", "--retries", "0", "results/smoke/traces.parquet"
    )
    wait_until(lambda: jobs(there), 180)
    [job] = jobs(there)
    assert (job.cpus, job.memory, job.limit, job.gpus, job.partition) == ("1", "8000M", "1:00:00", "gres:gpu:1", "main")


def test_two_jobs_at_once_see_different_gpus(folder: Callable[[str], Folder]) -> None:
    """Each waits for the other, so both run at the same time or neither ends well."""
    there = folder("gpus")
    (there.path / "Snakefile").write_text(TWO_JOBS, encoding="utf-8")
    status = there.run(*SLURM, "--snakefile", there.path / "Snakefile", "--retries", "0")
    assert status == 0, there.said()
    assert {(there.path / job).read_text().strip() for job in ("first", "second")} == {"0", "1"}
