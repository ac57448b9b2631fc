"""The smoke study through Slurm: the same tables as here."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from through_slurm import LOCAL, SLURM, Folder, edited, jobs

TABLES = [
    f"results/smoke/tables/{name}.csv"
    for name in (
        *("runs", "arms", "gaps", "samples", "probe", "throughput", "largest_batch", "roofline", "practices"),
        "output_dtypes",
    )
]
MEASURED = {"throughput.csv", "throughput_blocks.csv", "throughput.tex", "memory.csv", "memory.tex"}
"""Tables of seconds, and of bytes that a process took, of which no two are the same."""
ARMS = ("fp32", "bf16", "fp16", "fp16-injected", "fp32-injected")
RUNS, OTHERS = 7, 6
NODE_CPUS = "4"


def shorten(settings: dict[str, Any]) -> None:
    """Leave one seed, and those arms of which each ends in another way."""
    settings["seeds"] = [0]
    settings["arms"] = [arm for arm in settings["arms"] if arm["name"] in ARMS]


def test_the_smoke_study_ends_with_the_same_tables(folder: Callable[[str], Folder], tmp_path: Path) -> None:
    config = edited(tmp_path, shorten)
    here, alone, grouped = folder("here"), folder("through Slürm"), folder("through Slurm, in groups")
    of_runs = ["results/smoke/tables/arms.csv", "results/smoke/tables/samples.csv"]  # and groups are of runs alone
    groups = ["--groups", "train=short", "--group-components", "short=4"]
    studies = {
        here: here.start(*LOCAL, *TABLES, "--configfile", config),
        alone: alone.start(*SLURM, *TABLES, "--configfile", config),
        grouped: grouped.start(*SLURM, *of_runs, "--configfile", config, *groups),
    }
    for study, process in studies.items():
        assert process.wait(timeout=1200) == 0, study.said()
    same = {
        f"{name}.{suffix}"
        for name in ("runs", "arms", "roofline", "probe", "practices", "output_dtypes")
        for suffix in ("csv", "tex")
    }
    same |= {"samples.csv", "exponents.csv", "gaps.csv", "scaling.tex", "largest_batch.csv", "traces.parquet"}
    same |= {"probe_scales.csv", "probe_layers.csv", "predicted_skips.csv", "predicted_flushed.csv"}
    same |= {"practices_runs.csv", "survival.csv"}
    same |= {"output_dtypes_passes.csv", "autocast_operations.csv"}
    expected = here.tables()
    assert set(expected) == set(alone.tables()) == same | MEASURED
    assert all(alone.tables()[name] == expected[name] for name in same)
    found = grouped.tables()
    assert {"runs.csv", "arms.csv", "gaps.csv", "survival.csv", "samples.csv", "traces.parquet"} <= set(found)
    assert found == {name: expected[name] for name in found}

    asked = Counter((job.cpus, job.memory, job.limit, job.gpus) for job in jobs(alone))
    # A whole node for what is timed; a run, or what is probed or predicted, takes a core.
    timed = (NODE_CPUS, "6000M", "2:00:00", "N/A")
    assert asked == {("1", "3000M", "1:00:00", "N/A"): RUNS + OTHERS, timed: 1}
    assert {job.state for job in jobs(alone)} == {"COMPLETED"}
    # The runs of a group go one after another: as wide as one, as long as all.
    asked = Counter((job.cpus, job.memory, job.limit) for job in jobs(grouped))
    assert asked == {
        ("1", "3000M", "4:00:00"): 1,
        ("1", "3000M", "3:00:00"): 1,
    }
