"""Leases of pretended devices, held by real processes: who gets which, who waits, and what a death frees."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from halfscale.machine import leases
from halfscale.study.load import load_study
from halfscale.study.runs import plan_study

ROOT = Path(__file__).parents[2]

HOLDER = """
import os, sys
from halfscale.machine import leases
leases.count_devices = lambda: int(sys.argv[1])
with leases.leased_device("cuda") as device:
    print(device, os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
    sys.stdin.read()
print(os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
"""

Hold = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """A function that starts a process which leases a device of so many, and holds it until its input ends."""
    started: list[subprocess.Popen[str]] = []

    def start(devices: int, visible: str | None = None) -> subprocess.Popen[str]:
        environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
        environment |= {"TMPDIR": str(tmp_path)} | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
        command = [sys.executable, "-c", HOLDER, str(devices)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        with process:  # which closes its pipes too
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def warned(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def test_two_get_different_devices_and_a_third_waits_for_the_first_to_end(hold: Hold) -> None:
    first = hold(2)
    assert said(first) == "0 0"
    second = hold(2)
    assert said(second) == "1 1"
    third = hold(2)
    holders = f"0 by process {first.pid}, 1 by process {second.pid}"
    assert warned(third) == f"halfscale: every GPU is leased ({holders}); waiting for one"
    assert third.poll() is None
    end(second)
    assert said(third) == "1 1"
    assert said(second) == "None"  # the variable is as it was
    end(third)
    assert third.wait() == 0
    assert third.stderr is not None
    assert third.stderr.read() == ""  # it was told once


def test_a_killed_holders_device_is_free_at_once(hold: Hold) -> None:
    first = hold(1)
    assert said(first) == "0 0"
    second = hold(1)
    assert "every GPU is leased" in warned(second)
    first.send_signal(signal.SIGKILL)
    assert said(second) == "0 0"


def test_devices_already_chosen_are_the_only_ones(hold: Hold) -> None:
    assert said(hold(8, "2,5")) == "2 2"
    assert said(hold(8, "2,5")) == "5 5"
    third = hold(8, "2,5")
    assert "(2 by process" in warned(third)
    assert said(hold(8)) == "0 0"  # and one who may see all has others to take


def test_where_there_is_no_device_nothing_is_leased(hold: Hold, tmp_path: Path) -> None:
    assert said(hold(0)) == "None None"
    assert said(hold(2, "")) == "None"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, ["0", "1", "2"]),
        ("", []),
        ("-1", []),
        ("2, 5", ["2", "5"]),
        ("1,-1,0", ["1"]),
        ("1,1", ["1"]),
        ("GPU-8932f937,GPU-4b1", ["GPU-8932f937", "GPU-4b1"]),
        ("MIG-GPU-8932f937/1/2", ["MIG-GPU-8932f937/1/2"]),
    ],
)
def test_visible_devices(monkeypatch: pytest.MonkeyPatch, given: str | None, names: list[str]) -> None:
    monkeypatch.setattr(leases, "count_devices", lambda: 3)
    if given is None:
        monkeypatch.delenv(leases.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(leases.VARIABLE, given)
    assert leases.visible_devices() == names


def test_a_name_with_slashes_is_a_lock_like_any_other(hold: Hold, tmp_path: Path) -> None:
    name = "MIG-GPU-8932f937/1/2"
    assert said(hold(0, name)) == f"{name} {name}"
    assert "every GPU is leased" in warned(hold(0, name))


def test_counting_devices_asks_torch_and_leaves_cuda_uninitialised() -> None:
    code = "import torch; from halfscale.machine.leases import count_devices; count = count_devices();"
    code += "print(count == torch.cuda.device_count(), torch.cuda.is_initialized())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_leasing_loads_no_torch_before_it_counts() -> None:
    code = "import sys; import halfscale.machine.leases; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


TRAIN = """
import sys
from halfscale.cli import app
from halfscale.instruments import train
from halfscale.machine import leases
leases.count_devices = lambda: 1
def trained(spec, folder, progress):
    print(spec.device, leases.os.environ.get("CUDA_VISIBLE_DEVICES"))
    sys.exit()
train.train = trained
app(["train", "--spec", sys.argv[1], "--output", "nowhere"])
"""


@pytest.mark.parametrize(("device", "sees"), [("cuda", "0"), ("cpu", "None")])
def test_a_run_that_may_use_a_gpu_leases_one_and_a_run_on_the_cpu_does_not(
    tmp_path: Path, device: str, sees: str
) -> None:
    study = load_study([ROOT / "config/smoke.yaml"], {"device": device})
    spec = next(iter(plan_study(study).runs.values())).canonical()
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    environment["TMPDIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, spec], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.split() == [device, sees]


def test_one_gpu_run_at_a_time_on_one_machine_and_as_many_as_slurm_grants_on_a_cluster() -> None:
    """Without a limit Snakemake ignores a resource; on a cluster a limit would count all nodes together."""
    yaml = YAML(typ="safe", pure=True)
    here, cluster = (yaml.load(ROOT / "profiles" / name / "config.yaml")["resources"] for name in ("default", "slurm"))
    assert here["gpu"] == 1
    assert "gpu" not in cluster


def test_the_cpu_is_not_leased(monkeypatch):
    monkeypatch.setenv(leases.VARIABLE, "0")
    with leases.leased_device("cpu") as device:
        assert device is None
        assert os.environ[leases.VARIABLE] == "0"


def pretend_nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, *uuids: str) -> None:
    """Put an nvidia-smi that knows these devices first on the path."""
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + "".join(f"echo {uuid}\n" for uuid in uuids))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_an_index_and_a_uuid_of_one_device_are_one_lease(hold: Hold, tmp_path: Path, monkeypatch) -> None:
    pretend_nvidia_smi(tmp_path, monkeypatch, "GPU-aaa", "GPU-bbb")
    first, second = hold(2, "1"), hold(2, "GPU-aaa,GPU-bbb")
    assert first.stdout.readline() == "1 1\n"
    assert second.stdout.readline() == "GPU-aaa GPU-aaa\n"
    third = hold(2, "GPU-bbb")
    assert "every GPU is leased (GPU-bbb by process" in third.stderr.readline()


def test_jobs_whose_devices_are_numbered_from_0_do_not_wait_for_each_other(
    hold: Hold, tmp_path: Path, monkeypatch
) -> None:
    """As under Slurm where a job sees no device but its own."""
    for uuid in ("GPU-aaa", "GPU-bbb"):
        pretend_nvidia_smi(tmp_path, monkeypatch, uuid)
        assert hold(1, "0").stdout.readline() == "0 0\n"
