"""From the config to the paper: what a person finds at the end, and what runs again and what does not."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from ruamel.yaml import YAML

from halfscale.analysis.columns import COLUMNS
from halfscale.analysis.contents import tables_of
from halfscale.analysis.figures import figure_names
from halfscale.study.load import load_study
from halfscale.study.runs import plan_study

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "config" / "smoke.yaml"
TABLES = tuple(
    f"tables/{name}.csv"
    for name in (
        "runs",
        "arms",
        "gaps",
        "survival",
        "equivalence",
        "samples",
        "exponents",
        "throughput",
        "throughput_blocks",
        "memory",
        "largest_batch",
        "roofline",
        "probe",
        "practices",
        "practices_runs",
        "output_dtypes",
        "output_dtypes_passes",
        "autocast_operations",
        "published",
        "claims",
    )
)
LATEX = shutil.which("latexmk") or shutil.which("tectonic")

Snakemake = Callable[..., subprocess.CompletedProcess[str]]


def edited(folder: Path, edit: Callable[[dict], None]) -> Path:
    """Write an edited copy of the smoke config and return its path."""
    yaml = YAML(typ="safe", pure=True)
    settings = yaml.load(SMOKE.read_text(encoding="utf-8"))
    edit(settings)
    path = folder / "edited.yaml"
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(settings, file)
    return path


def planned_jobs(output: str) -> dict[str, int]:
    """Read the job counts of a dry run."""
    table = re.search(r"^job +count\n[- ]+\n(.*?)^total", output, re.MULTILINE | re.DOTALL)
    return {} if table is None else {name: int(count) for name, count in re.findall(r"(\w+) +(\d+)", table[1])}


def test_everything_is_there(smoke: Path) -> None:
    for name in ("plan.json", "traces.parquet", "environments.json", *TABLES):
        assert (smoke / name).stat().st_size > 0
    for figure in figure_names():
        if figure == "lr_sensitivity":  # the study has no sweep of learning rates
            continue
        for suffix in ("pdf", "png", "json"):
            assert (smoke / "figures" / f"{figure}.{suffix}").stat().st_size > 0
    assert (smoke / "paper.pdf").exists() is bool(LATEX)


def test_the_tables_are_those_that_are_listed(smoke: Path) -> None:
    """An archive of a study is refused where one of them is missing; a figure is not drawn where one is not made."""
    made = {path.stem for path in smoke.glob("tables/*.csv")}
    assert made == set(tables_of(plan_study(load_study([SMOKE]))))


def test_the_columns_of_every_table_are_those_that_are_listed(smoke: Path) -> None:
    for path in smoke.glob("tables/*.csv"):
        header = path.read_text(encoding="utf-8").partition("\n")[0]
        assert header.split(",") == COLUMNS[path.stem].split(), path.stem


def test_every_claim_is_judged(smoke: Path) -> None:
    claims = pd.read_csv(smoke / "tables/claims.csv").set_index("id")
    assert len(claims) == 17
    assert claims["rule"].notna().all()
    # What PyTorch does with a forgotten update and what autocast keeps does not depend on the size of a model.
    assert claims.loc["forgotten-update", "verdict"] == "supported"
    assert claims.loc["layernorm-fp32", "verdict"] == "refuted"
    assert claims.loc["double-speed", "verdict"] == "not testable"
    decided = claims[claims["verdict"].isin(["supported", "refuted"])]
    assert decided["estimate"].notna().all()
    assert (decided["n"] >= 1).all()


def test_every_run_is_counted_and_diverged_ones_are_not_averaged(smoke: Path) -> None:
    runs = pd.read_csv(smoke / "tables/runs.csv")
    assert len(runs) == 20
    assert (runs["updates"] + runs["skipped"] == runs["steps"]).all()
    diverged = runs[runs["status"] == "diverged"]
    assert set(diverged["arm"]) == {"fp32-injected"}
    assert set(diverged["first_bad_step"]) == {4}
    assert diverged["final_loss"].isna().all()
    injected = runs[runs["arm"] == "fp16-injected"]
    assert (injected["skipped"] >= 2).all()


def test_nothing_is_predicted_of_arms_with_other_gradients_than_those_probed(smoke: Path) -> None:
    predicted = pd.read_csv(smoke / "tables/predicted_skips.csv")
    assert set(predicted["arm"]) == {"fp16"}  # and not fp16-injected


def test_a_second_call_has_nothing_to_do(smoke_folder: Path, snakemake: Snakemake) -> None:
    for seed in ("1", "2"):
        done = snakemake(smoke_folder, "--configfile", SMOKE, "--dry-run", PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stdout
        assert "Nothing to be done" in done.stdout


def test_what_a_failed_job_took_away_is_made_anew(smoke_folder: Path, smoke: Path, snakemake: Snakemake) -> None:
    """Of a job that fails Snakemake removes the outputs; what was once made from them must not pass for up to date."""
    summary = next(path for path in sorted(smoke.glob("runs/*/summary.json")) if "transformer" in str(path))
    for taken, jobs in [
        (smoke / "tables/runs.csv", {"collect": 1, "tables": 1}),
        (summary, {"train": 1, "collect": 1, "tables": 1}),
    ]:
        taken.rename(smoke_folder / "aside")
        done = snakemake(smoke_folder, "--configfile", SMOKE, "--dry-run")
        (smoke_folder / "aside").rename(taken)
        assert jobs.items() <= planned_jobs(done.stdout).items(), done.stdout


def test_one_arms_growth_interval_reruns_that_arm_and_what_depends_on_it(
    smoke_folder: Path, snakemake: Snakemake, tmp_path: Path
) -> None:
    def edit(settings: dict) -> None:
        arm = next(arm for arm in settings["arms"] if arm["name"] == "fp16-injected")
        arm["loss_scaling"]["growth_interval"] = 6

    config = edited(tmp_path, edit)
    done = snakemake(smoke_folder, "--configfile", config, "--dry-run")
    names = ("plan", "train", "collect", "tables", "claims", "macros", "all")
    expected = dict.fromkeys(names, 1) | {f"figures_{job}": 1 for job in ("stability", "numerics", "cost")}
    # The plan is new; what was timed and predicted is not.
    experiments = ("equivalence", "published")
    experiments += ("sample", "output_dtypes", "probe", "throughput", "memory", "roofline", "practices")
    expected |= {f"{name}_tables": 1 for name in experiments}
    assert planned_jobs(done.stdout) == expected | ({"paper": 1} if LATEX else {})
    arms = {member.run_id: member.arm for member in plan_study(load_study([config])).members}
    changed = set(re.findall(r"runs/([^/\s]+)/summary\.json", done.stdout))
    (scheduled,) = re.findall(r"^Job \d+: train (\S+)_seed0-1", done.stdout, re.MULTILINE)
    assert {arms[f"{scheduled}_seed{seed}"] for seed in (0, 1)} == {"fp16-injected"}
    assert {f"{scheduled}_seed{seed}" for seed in (0, 1)} <= changed


def test_the_order_of_keys_reruns_nothing(smoke_folder: Path, snakemake: Snakemake, tmp_path: Path) -> None:
    def edit(settings: dict) -> None:
        for mapping in [*settings["arms"], *settings["workloads"], settings]:
            for key in sorted(mapping, reverse=True):
                mapping[key] = mapping.pop(key)

    done = snakemake(smoke_folder, "--configfile", edited(tmp_path, edit), "--dry-run")
    assert "Nothing to be done" in done.stdout, done.stdout


def test_a_renamed_arm_trains_nothing(smoke_folder: Path, snakemake: Snakemake, tmp_path: Path) -> None:
    config = edited(tmp_path, lambda settings: settings["arms"][3].update(name="half"))
    jobs = planned_jobs(snakemake(smoke_folder, "--configfile", config, "--dry-run").stdout)
    assert "train" not in jobs
    assert jobs["tables"] == 1


def test_another_margin_trains_nothing(smoke_folder: Path, snakemake: Snakemake, tmp_path: Path) -> None:
    config = edited(tmp_path, lambda settings: settings["experiments"]["equivalence"]["margin"].update(nats=0.1))
    jobs = planned_jobs(snakemake(smoke_folder, "--configfile", config, "--dry-run").stdout)
    assert jobs["equivalence_tables"] == 1
    assert not {"train", "probe", "throughput", "memory", "roofline", "practices", "output_dtypes"} & jobs.keys()


def test_the_profile_for_slurm_needs_no_cores_here(tmp_path: Path) -> None:
    """A dry run would be given one. The plan is made here and not by Slurm."""
    plan = "results/smoke/plan.json"
    command = [sys.executable, "-m", "snakemake", plan, "--snakefile", ROOT / "Snakefile", "--configfile", SMOKE]
    profile = ["--workflow-profile", ROOT / "profiles" / "slurm", "--slurm-init-seconds-before-status-checks=1"]
    done = subprocess.run([*command, *profile, "--directory", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / plan).exists()


def test_a_threshold_of_the_claims_measures_nothing_anew(
    smoke_folder: Path, snakemake: Snakemake, tmp_path: Path
) -> None:
    config = edited(tmp_path, lambda settings: settings["experiments"].update(claims={"blocks": 3}))
    jobs = planned_jobs(snakemake(smoke_folder, "--configfile", config, "--dry-run").stdout)
    assert jobs["claims"] == 1
    assert not jobs.keys() & {"train", "output_dtypes", "probe", "throughput", "memory", "roofline", "practices"}


@pytest.mark.skipif(LATEX is None, reason="no LaTeX engine: neither latexmk nor tectonic is installed")
def test_the_paper_and_the_figures_are_the_same_bytes_when_built_again(
    smoke_folder: Path, smoke: Path, snakemake: Snakemake
) -> None:
    # Of the figures those of one job: test_draw.py draws all of them again.
    names = ("final_gap", "loss_by_arm", "survival")
    files = [smoke / "paper.pdf", *(smoke / "figures" / f"{name}.{end}" for name in names for end in ("pdf", "png"))]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    done = snakemake(smoke_folder, "--configfile", SMOKE)
    assert done.returncode == 0, done.stdout
    assert [file.read_bytes() for file in files] == before


@pytest.mark.skipif(shutil.which("latexmk") is None, reason="latexmk is not installed")
def test_the_archive_is_enough_to_typeset_the_paper_again(smoke: Path, smoke_folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "smoke.zip"
    command = [sys.executable, "-m", "halfscale", "export", "results/smoke", "--output", archive]
    done = subprocess.run(command, cwd=smoke_folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{archive}\n"), done.stderr
    shutil.unpack_archive(archive, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if str(smoke_folder).encode() in path.read_bytes()]
    (epoch,) = re.findall(r"SOURCE_DATE_EPOCH=(\d+)", (tmp_path / "README.md").read_text(encoding="utf-8"))
    subprocess.run(
        ["latexmk", "-norc", "-pdf", "-interaction=nonstopmode", "main.tex"],
        cwd=tmp_path / "paper",
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch, "FORCE_SOURCE_DATE": "1"},
        capture_output=True,
        check=True,
    )
    assert (tmp_path / "paper" / "main.pdf").read_bytes() == (smoke / "paper.pdf").read_bytes()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_every_figure_can_be_cited(smoke_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "halfscale", "cite", "--study", "results/smoke"]
    listed = subprocess.run([*command, "--list"], cwd=smoke_folder, capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    assert names == [name for name in figure_names() if name != "lr_sensitivity"]  # the study has no sweep of rates
    body, entries = "", set()
    for name in names:
        text = subprocess.run([*command, name], cwd=smoke_folder, capture_output=True, text=True, check=True).stdout
        include, entry = text.split("@")
        body += include + "\\clearpage\n"
        entries.add(entry)
        assert f"\\label{{fig:{name.replace('_', '-')}}}" in include
    assert len(entries) == 1
    page = "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{graphicx}\n\\begin{document}\n"
    (tmp_path / "page.tex").write_text(
        f"{page}{body}\\bibliographystyle{{plain}}\\bibliography{{halfscale}}\\end{{document}}", encoding="utf-8"
    )
    (tmp_path / "halfscale.bib").write_text("@" + entries.pop(), encoding="utf-8")
    (tmp_path / "results").symlink_to(smoke_folder / "results")
    for program in (["pdflatex", "-halt-on-error"], ["bibtex"], ["pdflatex"], ["pdflatex"]):
        done = subprocess.run([*program, "page"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-1500:]
    log = (tmp_path / "page.log").read_text(encoding="utf-8", errors="replace")
    for complaint in ("undefined", "Missing character", "multiply defined"):
        assert complaint not in log
    assert "Warning" not in (tmp_path / "page.blg").read_text(encoding="utf-8")


def test_the_report_holds_itself(smoke: Path, smoke_folder: Path, snakemake: Snakemake) -> None:
    done = snakemake(smoke_folder, "--configfile", SMOKE, "--report", "report.html")
    assert done.returncode == 0, done.stdout
    report = (smoke_folder / "report.html").read_text(encoding="utf-8")
    for text in ("Skipped steps by cause", "Every arm", "Stability"):
        assert text in report
    for figure in ("final_gap", "survival"):  # drawn by one job, each with a caption of its own
        caption = (smoke / "figures" / f"{figure}.rst").read_text(encoding="utf-8")
        assert re.search(rf'figures/{figure}\.png": {{[^{{]*{{[^{{]*"caption": "<p>{re.escape(caption[:60])}', report)
    assert not re.search(r"<(script|link)[^>]+(src|href)=.https?:", report)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda settings: settings["arms"][0].update(precison="fp32"), "unknown key"),
        (lambda settings: settings["arms"][0].update(precision="no"), "precision = 'no'"),
        (lambda settings: settings["workloads"][1]["optimizer"].update(lr="1e-4"), "lr = '1e-4'"),
        (lambda settings: settings["arms"][3]["loss_scaling"].update(growth_interval=0), "growth_interval = 0"),
        (lambda settings: settings.update(arms=[]), "arms"),
        (lambda settings: settings["arms"].pop(0), "reference"),
    ],
    ids=["unknown key", "precision no", "number as text", "growth interval 0", "no arms", "no reference"],
)
def test_a_bad_config_is_told_in_a_line(
    tmp_path: Path, snakemake: Snakemake, edit: Callable[[dict], None], message: str
) -> None:
    done = snakemake(tmp_path, "--configfile", edited(tmp_path, edit))
    assert done.returncode != 0
    assert message in done.stdout
    assert "edited.yaml" in done.stdout
    assert "Traceback" not in done.stdout
    assert 'File "' not in done.stdout  # nor a pointer to the Snakefile, where there is nothing to mend
    assert not (tmp_path / "results").exists()


def test_a_crash_fails_the_study_and_names_its_log(tmp_path: Path, snakemake: Snakemake) -> None:
    """A model of the user's own that raises: non-zero, no summary, and the message is in the log that is named."""
    (tmp_path / "mine.py").write_text('def build():\n    raise OverflowError("too large by half")\n', encoding="utf-8")

    def edit(settings: dict) -> None:
        settings["workloads"] = [{**settings["workloads"][1], "model": "mine:build", "model_args": {}}]
        settings["arms"] = [settings["arms"][0]]
        settings["seeds"] = [0]
        del settings["experiments"]  # which the crash would not stop

    done = snakemake(tmp_path, "--configfile", edited(tmp_path, edit), PYTHONPATH=str(tmp_path))
    assert done.returncode != 0
    assert re.search(r"results/smoke/logs/train/mine-build_\S+\.log", done.stdout)
    assert "too large by half" in done.stdout
    assert not list(tmp_path.glob("results/smoke/runs/*/summary.json"))


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ("shutil.disk_usage = lambda path: shutil._ntuple_diskusage(2**30, 2**30, 0)", "The disk of {} is full. "),
        ("os.access = lambda path, mode: False", "{} cannot be written to. "),
    ],
    ids=["disk full", "unwritable"],
)
def test_where_nothing_can_be_written_a_line_says_so(
    tmp_path: Path, snakemake: Snakemake, system: str, told: str
) -> None:
    """The answers of the system are made up: a full disk cannot be had without root."""
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "sitecustomize.py").write_text(f"import os, shutil\n{system}\n", encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    done = snakemake(work, "--configfile", SMOKE, PYTHONPATH=str(tmp_path / "system"))
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1].startswith(told.format(work))
    assert "Traceback" not in done.stdout
    assert not (work / "results").exists()


def test_provenance(smoke: Path) -> None:
    sidecar = json.loads((smoke / "figures/final_gap.json").read_text(encoding="utf-8"))
    assert {"title", "caption", "script", "command", "commit", "clean", "inputs", "versions", "runs"} <= sidecar.keys()
    run = json.loads(next(smoke.glob("runs/*/summary.json")).read_text(encoding="utf-8"))
    assert sidecar["devices"] == [run["environment"]["device"]]
    values = json.loads((smoke / "paper/macros.json").read_text(encoding="utf-8"))
    assert values["transformer.fp32-injected.diverged"] == "$2$"
