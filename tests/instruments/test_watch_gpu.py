"""Watching a GPU: what nvidia-smi prints, and how the watcher comes and goes."""

import sys
import time

import pytest

from halfscale.instruments.watch_gpu import parse_look, watched_gpu
from halfscale.study.timings import GpuLook

LINE = "1980, 345.21, 45, 0x0000000000000004"
LOOK = GpuLook(sm_clock=1980, power=345.21, temperature=45, held_back=True)

WATCHER = f"""
import time
while True:
    print("{LINE}", flush=True)
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("line", "look"),
    [
        (LINE, LOOK),
        ("1410, 90.0, 30, 0x0000000000000001", GpuLook(sm_clock=1410, power=90, temperature=30, held_back=False)),
        ("1980, 345.21, 45, 0x00000000000000", GpuLook(sm_clock=1980, power=345.21, temperature=45, held_back=False)),
        ("1980, [N/A], 45, 0x0000000000000000", None),
        ("1980, 345", None),
        ("", None),
    ],
)
def test_a_line_is_a_look_or_nothing(line: str, look: GpuLook | None) -> None:
    assert parse_look(line) == look


def test_what_is_seen_is_there_when_the_block_ends() -> None:
    with watched_gpu("cuda", [sys.executable, "-c", WATCHER]) as looks:
        time.sleep(1)
        assert looks == []
    assert looks
    assert set(map(str, looks)) == {str(LOOK)}
    seen = len(looks)
    time.sleep(0.2)
    assert len(looks) == seen


def test_without_the_program_nothing_is_seen() -> None:
    with watched_gpu("cuda", ["no-such-program-here"]) as looks:
        pass
    assert looks == []


def test_a_cpu_is_not_watched() -> None:
    with watched_gpu("cpu", ["no-such-program-here"]) as looks:
        pass
    assert looks == []
