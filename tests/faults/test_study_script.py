"""What `make study` does around Snakemake, with a Snakemake that only writes down how it was called."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "workflow" / "scripts" / "study.sh"

SNAKEMAKE = """#!/bin/sh
lock=.snakemake/locks/0.output.lock
[ "$1" = --unlock ] || { mkdir -p .snakemake/locks && touch $lock; }
echo "$HOME" > home
echo "${USER:-}${LOGNAME:-}" > user
echo "$*" >> calls
[ "$1" != --unlock ] || { rm $lock; exit; }
sh -c "$SNAKEMAKE_DOES" || { status=$?; rm $lock; exit $status; }
rm $lock
"""

HALFSCALE = """#!/bin/sh
echo a line for each run
[ "$3" != bad.yaml ] || { echo "halfscale: bad.yaml: is not YAML: line 3" >&2; exit 1; }
echo "results/mine: 3 runs"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder, its name with a space and an umlaut, with a pretended environment."""
    folder = tmp_path / "clöne of it"
    (folder / "bin").mkdir(parents=True)
    snakemake = folder / "bin" / "snakemake"
    snakemake.write_text(SNAKEMAKE, encoding="utf-8")
    snakemake.chmod(0o755)
    halfscale = folder / "bin" / "halfscale"
    halfscale.write_text(HALFSCALE, encoding="utf-8")
    halfscale.chmod(0o755)
    return folder


def start(
    clone: Path, does: str = "true", config: str = "my study.yaml", **environment: str | None
) -> subprocess.Popen[str]:
    changed = {**os.environ, "SNAKEMAKE_DOES": does, **environment}
    return subprocess.Popen(
        ["sh", str(SCRIPT), "bin", "2", config],
        cwd=clone,
        env={name: value for name, value in changed.items() if value is not None},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def calls(clone: Path) -> list[str]:
    return (clone / "calls").read_text(encoding="utf-8").splitlines()


def wait_for_calls(clone: Path, count: int) -> None:
    deadline = time.monotonic() + 20
    while not (clone / "calls").exists() or len(calls(clone)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_a_terminal_there_is_no_progress_bar(clone: Path) -> None:
    process = start(clone)
    said, _ = process.communicate()
    assert process.returncode == 0
    assert calls(clone)[-1] == "--cores 2 --configfile my study.yaml"
    assert said.split() == ["Tables:", "results/mine/tables/", "Figures:", "results/mine/figures/"]


def test_a_bad_config_is_told_with_its_name_before_anything_starts(clone: Path) -> None:
    process = start(clone, config="bad.yaml")
    said, _ = process.communicate()
    assert process.returncode != 0
    assert said == "halfscale: bad.yaml: is not YAML: line 3\n"
    assert not (clone / "calls").exists()


def test_a_failed_study_ends_with_what_to_do(clone: Path) -> None:
    process = start(clone, "echo disk full; exit 3")
    said, _ = process.communicate()
    assert process.returncode == 1
    assert said.splitlines()[-1] == (
        "The study has not ended; what is done is kept. Mend what is said above, then go on: the same call again"
    )


def test_a_full_disk_is_told(clone: Path) -> None:
    df = clone / "bin" / "df"
    df.write_text("#!/bin/sh\necho head; echo tmpfs 200 200 0 100% /\n", encoding="utf-8")
    df.chmod(0o755)
    process = start(clone, "exit 1", PATH=f"{clone}/bin:{os.environ['PATH']}")
    said, _ = process.communicate()
    assert said.splitlines()[-2] == f"The disk of {clone} is full."


def test_a_full_disk_that_only_the_results_lie_on_is_told(clone: Path) -> None:
    (clone / "results" / "mine").mkdir(parents=True)
    df = clone / "bin" / "df"
    free = 'free=999999; case "$2" in */results/mine) free=0;; esac'
    df.write_text(f'#!/bin/sh\n{free}\necho head; echo "tmpfs 200 200 $free 100% /"\n', encoding="utf-8")
    df.chmod(0o755)
    process = start(clone, "exit 1", PATH=f"{clone}/bin:{os.environ['PATH']}")
    said, _ = process.communicate()
    assert said.splitlines()[-2] == f"The disk of {clone}/results/mine is full."


needs_flock = pytest.mark.skipif(shutil.which("flock") is None, reason="util-linux's flock is not installed")


@needs_flock
def test_a_second_study_in_the_folder_waits_for_the_first(clone: Path) -> None:
    first = start(clone, "while [ ! -e go ]; do sleep 0.05; done")
    wait_for_calls(clone, 1)
    second = start(clone)
    assert second.stdout is not None
    assert second.stdout.readline() == "Another 'make study' is running in this folder; waiting for it to end ...\n"
    assert len(calls(clone)) == 1
    (clone / "go").touch()
    assert first.communicate()[0].startswith("\nTables:")
    second.communicate()
    assert second.returncode == 0
    assert calls(clone) == 2 * ["--cores 2 --configfile my study.yaml"]


@needs_flock
def test_a_killed_study_keeps_nobody_waiting_and_its_snakemake_lock_is_removed(clone: Path) -> None:
    killed = start(clone, "sleep 60")
    wait_for_calls(clone, 1)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    process = start(clone)
    said, _ = process.communicate()
    assert process.returncode == 0
    assert "waiting" not in said
    assert calls(clone)[1:] == ["--unlock --quiet all", "--cores 2 --configfile my study.yaml"]


def test_results_dated_in_the_future_are_brought_to_now_in_one_stroke(clone: Path) -> None:
    """Snakemake refuses an output that is older than its input, and runs again what is."""
    folder = clone / "results" / "quickstart" / "runs of old"
    folder.mkdir(parents=True)
    future, past = time.time() + 86400, time.time() - 86400
    for name, when in (("trace.parquet", future), ("summary.json", future + 9), ("plan.json", past)):
        (folder / name).touch()
        os.utime(folder / name, (when, when))
    start(clone).communicate()
    times = {path.name: path.stat().st_mtime for path in folder.iterdir()}
    assert times["trace.parquet"] == times["summary.json"] <= time.time()
    assert times["plan.json"] == pytest.approx(past)


def test_a_paper_and_figures_that_are_empty_are_removed_before_snakemake_looks(clone: Path) -> None:
    """To Snakemake a file of 0 bytes is there, and has not to be made."""
    folder = clone / "results" / "mine"
    (folder / "figures").mkdir(parents=True)
    for name in ("paper.pdf", "figures/speedup.png", "figures/speedup.pdf", "empty"):
        (folder / name).touch()
    (folder / "figures/speedup.pdf").write_text("drawn", encoding="utf-8")
    said, _ = start(clone, "ls results/mine results/mine/figures > seen").communicate()
    seen = (clone / "seen").read_text(encoding="utf-8")
    assert "paper.pdf" not in seen + said
    assert "speedup.png" not in seen
    assert "empty" in seen
    assert (folder / "figures/speedup.pdf").read_text(encoding="utf-8") == "drawn"


def test_a_home_and_a_user_are_made_up_where_there_are_none(clone: Path) -> None:
    start(clone, HOME=None, USER=None, LOGNAME=None).communicate()
    assert (clone / "home").read_text(encoding="utf-8").strip() == f"{clone}/.snakemake/home"
    assert (clone / "user").read_text(encoding="utf-8").strip() != ""
    start(clone, HOME="/nowhere", USER="ada", LOGNAME=None).communicate()
    assert (clone / "home").read_text(encoding="utf-8").strip() == f"{clone}/.snakemake/home"
    assert (clone / "user").read_text(encoding="utf-8").strip() == "ada"


def test_a_home_that_can_be_written_to_is_left_alone(clone: Path, tmp_path: Path) -> None:
    start(clone, HOME=str(tmp_path)).communicate()
    assert (clone / "home").read_text(encoding="utf-8").strip() == str(tmp_path)
