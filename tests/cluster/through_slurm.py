"""How the studies of this folder call Snakemake and Slurm."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
SLURM = [
    "--workflow-profile",
    str(ROOT / "profiles" / "slurm"),
    # Ask after jobs soon, and do not wait for files of another machine.
    "--slurm-init-seconds-before-status-checks=3",
    "--latency-wait=5",
]
LOCAL = ["--cores", "2"]

TRAINING = """
import os
import time
from pathlib import Path

from halfscale.workloads.models import transformer


def build():
    model = transformer.build(vocabulary=8, context=16, width=32, depth=1, heads=2)
    model.register_forward_pre_hook(sleep)
    return model


def sleep(*_):
    with Path("forwards").open("a") as file:
        file.write(".")
    time.sleep(float(os.environ.get("SECONDS_A_FORWARD", 0)))
    if "CRASH" in os.environ:
        raise OverflowError("too large by half")
"""


@dataclass(eq=False)
class Folder:
    """A folder that a study runs in, with a model `mine:build` that sleeps, counts its forwards, or crashes."""

    path: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[bytes]:
        """Start Snakemake; what it says goes to the file `said`."""
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        with (self.path / "said").open("w") as said:
            process = subprocess.Popen(
                [*command, "--directory", str(self.path), *map(str, arguments)],
                cwd=self.path,
                env={**os.environ, "PYTHONPATH": str(self.path), **environment},
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def run(self, *arguments: object, **environment: str) -> int:
        """Run Snakemake and return its exit status."""
        return self.start(*arguments, **environment).wait(timeout=1200)

    def said(self) -> str:
        """Return what Snakemake has said since it was last started."""
        return (self.path / "said").read_text(encoding="utf-8")

    def forwards(self) -> int:
        """Return the number of forward passes of `mine:build` so far."""
        file = self.path / "forwards"
        return file.stat().st_size if file.exists() else 0

    def stop(self) -> None:
        """Interrupt what still runs, as Ctrl-C does: Snakemake cancels its jobs."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=300)

    def kill_jobs(self) -> None:
        """Kill every process that a Slurm job runs in this folder, as a node does that loses power."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                of_a_job = b"SLURM_JOB_ID=" in (process / "environ").read_bytes()
                if of_a_job and (process / "cwd").readlink() == self.path:
                    os.kill(int(process.name), signal.SIGKILL)
            except (PermissionError, FileNotFoundError, ProcessLookupError):
                continue  # somebody else's, or ended meanwhile

    def checkpoints(self) -> list[Path]:
        return list(self.path.glob("results/*/runs/*/checkpoint_*.pt"))

    def tables(self) -> dict[str, bytes]:
        """Return every table of the study, and the study's traces."""
        files = [*self.path.glob("results/*/tables/*"), *self.path.glob("results/*/traces.parquet")]
        return {file.name: file.read_bytes() for file in files}


def slurm(*command: str) -> str:
    """Run one of Slurm's commands and return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@dataclass(frozen=True)
class Job:
    """What Slurm knows of one job: also of one that has ended."""

    id: str
    state: str
    cpus: str
    memory: str
    limit: str
    gpus: str
    partition: str
    restarts: str


def jobs(where: Folder) -> list[Job]:
    """Return the jobs that were submitted from a folder, oldest first."""
    names = [
        "JobID",
        "State",
        "NumCPUs",
        "MinMemory",
        "TimeLimit",
        "tres-per-job",
        "Partition",
        "RestartCnt",
        "WorkDir",
    ]
    lines = slurm(
        "squeue", "--noheader", "--states=all", "--sort=i", "--Format", ",".join(f"{name}:|" for name in names)
    )
    rows = [line.rstrip("|").split("|") for line in lines.splitlines()]
    return [Job(*row[:-1]) for row in rows if row[-1] == str(where.path)]


def wait_until(true: Callable[[], object], seconds: float) -> None:
    """Wait until something is true.

    Raises:
        TimeoutError: it is not, after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.2)


def edited(folder: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """Write an edited copy of the smoke study's config and return its path."""
    yaml = YAML(typ="safe", pure=True)
    settings = yaml.load((ROOT / "config/smoke.yaml").read_text(encoding="utf-8"))
    edit(settings)
    path = folder / "edited.yaml"
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(settings, file)
    return path
