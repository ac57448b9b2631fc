"""The command's own answers: what is told in a line, and what is left as it was."""

import os
import resource
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from halfscale.study.load import load_study
from halfscale.study.records import read_summary
from halfscale.study.runs import plan_study

ROOT = Path(__file__).parents[1]
Halfscale = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def halfscale(tmp_path: Path) -> Halfscale:
    """A function that runs the command in a folder of its own."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(ROOT / "tests" / "instruments"), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "halfscale", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("command", ["collect", "tables", "claims", "figure", "macros", "paper", "export"])
def test_a_folder_that_is_no_study_is_told_by_name_and_stays_as_it_was(
    halfscale: Halfscale, tmp_path: Path, command: str
) -> None:
    done = halfscale(command, "results/nope")
    assert done.returncode == 1
    assert done.stderr.startswith("halfscale: results/nope/plan.json: is not there")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_tables_of_what_a_study_does_not_measure_are_refused(halfscale: Halfscale, tmp_path: Path) -> None:
    config = tmp_path / "plain.yaml"
    config.write_text(
        "study: plain\nseeds: [0]\nworkloads: [{name: w, model: transformer, data: markov, batch_size: 4, steps: 4, "
        "optimizer: {name: sgd, lr: 0.1}}]\narms: [{name: fp32, precision: fp32}]\n"
    )
    assert halfscale("plan", "--config", config, "--output", "results/plain/plan.json").returncode == 0
    for part in ("practices", "probe", "memory"):
        done = halfscale("tables", "results/plain", "--of", part)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"halfscale: results/plain: the study's config has no experiments.{part}, and so no such tables\n"
        )


def test_a_run_needs_a_workload_and_an_arm(halfscale: Halfscale) -> None:
    done = halfscale("train", "--output", "run", "--config", ROOT / "config" / "smoke.yaml")
    assert done.returncode == 1
    assert done.stderr == "halfscale: --workload and --arm are needed, or --spec; `halfscale plan` lists them\n"


def test_a_finished_run_is_not_written_over_by_another(halfscale: Halfscale, tmp_path: Path) -> None:
    config = tmp_path / "tiny.yaml"
    config.write_text(
        "study: tiny\nseeds: [0, 1]\n"
        "workloads: [{name: tiny, model: 'tiny_workloads:classifier', data: 'tiny_workloads:clouds', batch_size: 8, "
        "steps: 4, optimizer: {name: sgd, lr: 0.1}}]\n"
        "arms: [{name: fp32, precision: fp32}]\n"
    )
    command = ("train", "--config", config, "--workload", "tiny", "--arm", "fp32", "--output", "run")
    assert halfscale(*command, "--seed", "0").returncode == 0
    before = (tmp_path / "run" / "summary.json").read_bytes()
    done = halfscale(*command, "--seed", "1")
    assert done.returncode == 1
    assert "run/summary.json: belongs to another spec" in done.stderr
    assert (tmp_path / "run" / "summary.json").read_bytes() == before
    assert halfscale(*command, "--seed", "0").returncode == 0


def test_runs_of_one_call_are_what_they_would_be_alone(halfscale: Halfscale, tmp_path: Path) -> None:
    plan = plan_study(load_study([ROOT / "config" / "smoke.yaml"]))
    runs = {run: spec for run, spec in plan.runs.items() if run.startswith("transformer_fp16-dynamic")}
    assert len({spec.seed for spec in runs.values()}) == 2
    together = [
        word for run, spec in runs.items() for word in ("--spec", spec.canonical(), "--output", f"together/{run}")
    ]
    assert halfscale("train", *together).returncode == 0
    for run, spec in list(runs.items())[-2:]:  # the first of a process is not in question
        assert halfscale("train", "--spec", spec.canonical(), "--output", f"alone/{run}").returncode == 0
        for name in ("trace.parquet", "samples.parquet"):
            assert (tmp_path / "together" / run / name).read_bytes() == (tmp_path / "alone" / run / name).read_bytes()
        there, here = (read_summary(tmp_path / place / run / "summary.json", spec) for place in ("together", "alone"))
        assert there.model_dump(exclude={"seconds", "sha256"}) == here.model_dump(exclude={"seconds", "sha256"})


@pytest.mark.parametrize(
    ("command", "heads", "rows"),
    [
        ("throughput", ["label", "step_ms", "samples_per_second", "speedup"], ["fp32", "bf16", "bf16-scaled"]),
        ("memory", ["accounting", "precision", "batch_size", "peak", "residual"], ["cpu", "cuda", "H200"]),
        ("roofline", ["device", "precision", "step_ms", "speedup", "amdahl"], ["V100", "H200"]),
    ],
)
def test_speed_and_memory_alone_on_a_spec_file_print_a_table(
    halfscale: Halfscale, tmp_path: Path, command: str, heads: list[str], rows: list[str]
) -> None:
    (spec,) = getattr(plan_study(load_study([ROOT / "config" / "smoke.yaml"])), command).values()
    (tmp_path / "spec.json").write_text(spec.canonical(), encoding="utf-8")
    done = halfscale(command, "--spec", "spec.json", "--output", "alone")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert any(set(heads) <= set(words) for words in lines)
    assert set(rows) <= {words[0] for words in lines if words}
    assert lines[-1] == [f"alone/{command}.json"]
    assert (tmp_path / "alone" / f"{command}.json").exists()


def test_every_run_needs_a_folder(halfscale: Halfscale, tmp_path: Path) -> None:
    done = halfscale("train", "--spec", "{}", "--output", "a")
    assert "--spec: " in done.stderr
    spec = next(iter(plan_study(load_study([ROOT / "config" / "smoke.yaml"])).runs.values())).canonical()
    done = halfscale("train", "--spec", spec, "--spec", spec, "--output", "a")
    assert done.returncode == 1
    assert done.stderr == "halfscale: --output: 1 folders for 2 runs; allowed: one each\n"
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_that_of_the_project(halfscale: Halfscale) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert halfscale("--version").stdout == f"halfscale {project['version']}\n"


def test_verify_tells_by_its_exit_code(halfscale: Halfscale, tmp_path: Path) -> None:
    """0 where all is the same, 1 where a table differs or there is nothing to verify with."""
    make = "import sys; from pathlib import Path; sys.path.append(sys.argv[1]); from made_up import make_study_folder; "
    make += "make_study_folder(Path('results/made-up'), seeds=(0,), arms=('fp32', 'fp16'))"
    subprocess.run([sys.executable, "-c", make, ROOT / "tests" / "analysis"], cwd=tmp_path, check=True)
    for command in ("collect", "tables"):
        assert halfscale(command, "results/made-up").returncode == 0
    none = halfscale("verify", "results/made-up")
    assert (none.returncode, none.stderr.count("\n")) == (1, 1)
    assert "has no reference of the study 'made-up'" in none.stderr
    assert halfscale("verify", "results/made-up", "--record").returncode == 0
    same = halfscale("verify", "results/made-up")
    assert same.returncode == 0
    assert same.stdout.splitlines()[1:] == [f"{table:18} same" for table in ("arms", "gaps", "runs", "survival")]
    path = tmp_path / "results/made-up/tables/gaps.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("fp16", "half"), encoding="utf-8")
    different = halfscale("verify", "results/made-up")
    assert different.returncode == 1
    assert "gaps               different: arm of row " in different.stdout


def test_a_batch_that_memory_does_not_hold_is_told_in_a_line(halfscale: Halfscale, tmp_path: Path) -> None:
    config = YAML(typ="safe").load(ROOT / "config" / "smoke.yaml")
    config["workloads"][1]["batch_size"] = 2**31 - 1  # 272 GiB of random numbers
    YAML().dump(config, tmp_path / "huge.yaml")
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (64 * 2**30, limit[1]))  # for machines that have so much
    try:
        done = halfscale("train", "-c", "huge.yaml", "--workload", "transformer", "--arm", "fp32", "-o", "run")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("halfscale: memory is short: Unable to allocate 272. GiB")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
