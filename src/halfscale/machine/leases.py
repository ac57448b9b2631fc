"""One GPU a process: a lease that its holder's death ends, so that two timed jobs never share a device.

A lease is an advisory lock (flock) on a file of the device's own, in a folder of the user's own on this machine. The
kernel drops it with the process that holds it, however that ends, so nothing here has to tell a stale lease from a live
one. Those who meet are one user's processes on one machine with one temporary folder. On a cluster the scheduler
shares out the devices: each job there finds its own in CUDA_VISIBLE_DEVICES, and nobody to wait for.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import IO, Literal
from urllib.parse import quote

VARIABLE = "CUDA_VISIBLE_DEVICES"
"""Read once by CUDA, when it is initialised: what is written to it later has no effect."""

POLL = 0.2
"""Seconds between two looks for a free device."""


@contextmanager
def leased_device(wanted: Literal["auto", "cpu", "cuda"]) -> Iterator[str | None]:
    """Lease the first free GPU that this process may see, and let it see that one alone until the lease ends.

    Waits while all of them are leased, after one line on stderr that says by whom. Yields the GPU's name; None where
    the CPU is wanted, or there is no GPU: that is for the run to judge. To be entered before CUDA is initialised.

    Raises:
        OSError: the folder of the leases cannot be made or written.
    """
    devices = [] if wanted == "cpu" else visible_devices()
    if not devices:
        yield None
        return
    before = os.environ.get(VARIABLE)
    name, lock = wait_for_one(devices)
    with lock:
        os.environ[VARIABLE] = name
        try:
            yield name
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before


def visible_devices() -> list[str]:
    """Return the devices that CUDA would show this process, by the names that CUDA_VISIBLE_DEVICES gives them.

    Indices, UUIDs and MIG names are kept as they stand; lock_name knows that an index and a UUID may be one device.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        return [str(index) for index in range(count_devices())]
    names = takewhile(lambda name: name and not name.startswith("-"), map(str.strip, given.split(",")))
    return list(dict.fromkeys(names))  # CUDA too reads up to the first that is no device


def count_devices() -> int:
    """Return how many devices there are. Torch asks the driver's NVML, which leaves CUDA uninitialised."""
    import torch  # takes a second, and is wanted here alone

    return torch.cuda.device_count()


def list_uuids() -> list[str]:
    """Return the UUIDs of the devices of this process's machine or job, by index; none where nvidia-smi is not to be had."""
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.split()


def lock_name(device: str, uuids: Sequence[str]) -> str:
    """Return the name of a device's lock: its UUID where that is known.

    A scheduler may number the devices of each of its jobs from 0, and then two indices alike are two devices.
    """
    known = device.isdigit() and int(device) < len(uuids)
    return quote(uuids[int(device)] if known else device, safe="")


def wait_for_one(devices: list[str]) -> tuple[str, IO[str]]:
    """Return the first of some devices to be free, and its lock, which lasts until it is closed."""
    folder = Path(tempfile.gettempdir(), f"halfscale-gpu-leases-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    uuids = list_uuids()
    locks = {device: folder / lock_name(device, uuids) for device in devices}
    told = False
    while True:
        for device, path in locks.items():
            lock = try_to_lock(path)
            if lock is not None:
                return device, lock
        if not told:
            holders = ", ".join(f"{device} by process {holder(path)}" for device, path in locks.items())
            print(f"halfscale: every GPU is leased ({holders}); waiting for one", file=sys.stderr, flush=True)
            told = True
        time.sleep(POLL)


def try_to_lock(path: Path) -> IO[str] | None:
    """Return a file locked and holding this process's number, or None where another process has locked it."""
    file = path.open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        print(os.getpid(), file=file, flush=True)
    except BlockingIOError:
        file.close()
        return None
    except BaseException:
        file.close()
        raise
    return file


def holder(path: Path) -> str:
    """Return the number of the process that wrote a lock, as far as can be known."""
    return path.read_text(encoding="ascii").strip() or "unknown"
