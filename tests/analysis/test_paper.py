"""The paper: same inputs, same bytes; and whatever TeX only mutters about is an error by name."""

import json
import shutil
from pathlib import Path

import made_up
import pytest
from made_up import make_study_folder
from matplotlib.figure import Figure
from ruamel.yaml import YAML

from halfscale.analysis import paper
from halfscale.analysis.claims_tables import write_claims_tables
from halfscale.analysis.collect import collect, read_plan
from halfscale.analysis.equivalence import write_equivalence_tables
from halfscale.analysis.macros import write_macros
from halfscale.analysis.paper import PaperError, build_paper, captions, first_fault, write_config
from halfscale.analysis.published import write_published_tables
from halfscale.analysis.rates import has_sweep
from halfscale.analysis.samples import write_sample_tables
from halfscale.analysis.sensitivity import write_sensitivity_tables
from halfscale.analysis.tables import write_tables
from halfscale.study.config import Study

SOURCES = Path(__file__).parents[2] / "paper"

needs_latexmk = pytest.mark.skipif(shutil.which("latexmk") is None, reason="latexmk is not installed")


def finish(folder: Path) -> Path:
    """Give a study of finished runs its tables and numbers."""
    collect(folder)
    write_tables(folder)
    write_sample_tables(folder)
    plan = read_plan(folder)
    if plan.study.experiments.equivalence:
        write_equivalence_tables(folder)
    if has_sweep(plan):
        write_sensitivity_tables(folder)
    write_published_tables(folder)
    write_claims_tables(folder)
    write_macros(folder)
    return folder


@pytest.fixture(scope="module")
def measured_study(finished_study, tmp_path_factory):
    """The made-up study with its tables and numbers, but no figures. Change a copy."""
    folder = tmp_path_factory.mktemp("paper") / "made-up"
    shutil.copytree(finished_study, folder)
    return finish(folder)


@pytest.fixture
def study(measured_study, tmp_path):
    return Path(shutil.copytree(measured_study, tmp_path / "study"))


def write_sources(folder: Path, body: str) -> Path:
    """Write the sources of a paper with this body."""
    folder.mkdir()
    text = "\\documentclass{article}\n\\input{macros}\n\\begin{document}\n" + body + "\n\\end{document}\n"
    (folder / "main.tex").write_text(text, encoding="utf-8")
    return folder


def draw_stubs(folder: Path) -> None:
    """Give a study the figures of the paper, with nothing in them."""
    figures = folder / "figures"
    figures.mkdir()
    of_runs = ("scale_trajectory", "skips_by_cause", "loss_by_arm", "final_gap", "survival")
    of_samples = ("gradient_exponents", "lost_updates", "distance_from_fp32")
    for name in (*of_runs, *of_samples, "equivalence", "lr_sensitivity"):
        Figure(figsize=(6.5, 3)).savefig(figures / f"{name}.pdf")
        caption = {"caption": f"Stub of {name} for 50 % of runs × 2, −1 and so on."}
        (figures / f"{name}.json").write_text(json.dumps(caption), encoding="utf-8")


@needs_latexmk
def test_two_builds_are_the_same_bytes_wherever_the_folder_is(measured_study, tmp_path):
    sources = write_sources(tmp_path / "sources", r"Runs: \val{study.runs}. \today")
    folders = [tmp_path / "plain", tmp_path / "with space and é" / "made up"]
    for folder in folders:
        shutil.copytree(measured_study, folder)
        build_paper(folder, sources)
    first, second = ((folder / "paper.pdf").read_bytes() for folder in folders)
    assert first.startswith(b"%PDF")
    assert first == second
    assert b"made up" not in second


@needs_latexmk
def test_undefined_key_fails_by_name_and_leaves_the_paper_that_was(study, tmp_path):
    (study / "paper.pdf").write_bytes(b"older")
    with pytest.raises(PaperError, match=r"main\.log: .*No value for the key 'study\.nothing'"):
        build_paper(study, write_sources(tmp_path / "sources", r"\val{study.nothing}"))
    assert (study / "paper.pdf").read_bytes() == b"older"


@needs_latexmk
def test_tex_error_fails_with_its_file_and_line(study, tmp_path):
    with pytest.raises(PaperError, match=r"main\.log: .*main\.tex:4: Undefined control sequence"):
        build_paper(study, write_sources(tmp_path / "sources", r"\nosuchcommand"))
    assert not (study / "paper.pdf").exists()


@needs_latexmk
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (r"See \ref{nowhere}.", "Reference `nowhere'"),
        (r"See \cite{nobody}.", "Citation `nobody'"),
        (r"\noindent\rule{\dimexpr\textwidth+11pt}{1pt}", "Overfull .*11.0pt too wide"),
        (r"\font\plain=cmr10 \plain\char200", "Missing character"),
    ],
)
def test_what_tex_only_warns_of_fails(study, tmp_path, body, fault):
    with pytest.raises(PaperError, match=fault):
        build_paper(study, write_sources(tmp_path / "sources", body))


@needs_latexmk
@pytest.mark.slow
@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"seeds": (0,), "arms": ("fp32", "fp16", "bf16-scaled"), "diverged": {}},
        {"seeds": (0, 1), "arms": ("fp32", "fp16"), "diverged": {}},
    ],
)
def test_the_real_sources_serve_a_large_study_and_a_small_one(tmp_path, kept):
    make_study_folder(tmp_path, **kept)
    draw_stubs(finish(tmp_path))
    build_paper(tmp_path, SOURCES)
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")


@needs_latexmk
@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_the_real_sources_serve_a_study_that_compares_its_arms(tmp_path, monkeypatch, seeds):
    monkeypatch.setitem(made_up.SETTINGS, "experiments", {"equivalence": {}})
    rates = {"name": "rate", "base": "fp32", "over": {"precision": ["fp32", "fp16"], "lr_factor": [0.1, 1, 10]}}
    monkeypatch.setitem(made_up.SETTINGS, "sweeps", [rates])
    make_study_folder(tmp_path, seeds=seeds)
    draw_stubs(finish(tmp_path))
    build_paper(tmp_path, SOURCES)
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")


@needs_latexmk
@pytest.mark.slow
def test_the_real_sources_serve_names_of_sixty_characters(tmp_path, monkeypatch):
    names = {"fp16": "backoff_backoff_factor-0.25_growth_interval-20_init_scale-64", "fp32-ulp": 15 * "nmhb"}
    arms = [arm | {"name": names.get(arm["name"], arm["name"])} for arm in made_up.SETTINGS["arms"]]
    monkeypatch.setitem(made_up.SETTINGS, "arms", arms)
    make_study_folder(tmp_path)
    draw_stubs(finish(tmp_path))
    build_paper(tmp_path, SOURCES)
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")


@needs_latexmk
@pytest.mark.slow
def test_the_real_sources_serve_the_sweeps_of_a_cluster(tmp_path, monkeypatch):
    """Of 129 arms at seven learning rates, the paper shows the 21 at the reference's and names the files of all."""
    config = YAML(typ="safe").load(SOURCES.parent / "config" / "cluster.yaml")
    for key in ("arms", "sweeps"):
        monkeypatch.setitem(made_up.SETTINGS, key, config[key])
    make_study_folder(tmp_path, seeds=(0,))
    draw_stubs(finish(tmp_path))
    build_paper(tmp_path, SOURCES)
    build = tmp_path / "paper" / "build"
    for name in ("generated/arms_defined", "tables/arms", "tables/scaling", "tables/runs"):
        text = (build / f"{name}.tex").read_text(encoding="utf-8")
        assert "Not all arms are shown but 21 of 129 of" in text, name


def test_without_an_engine_the_error_says_what_to_install(study, tmp_path, monkeypatch):
    monkeypatch.setattr(paper.shutil, "which", lambda name: None)
    with pytest.raises(PaperError, match=r"latexmk or tectonic.* apt-get install latexmk") as caught:
        build_paper(study, write_sources(tmp_path / "sources", "text"))
    assert "\n" not in str(caught.value)


def test_tectonic_takes_the_place_of_latexmk(study, tmp_path, monkeypatch):
    engine = tmp_path / "bin" / "tectonic"
    engine.parent.mkdir()
    engine.write_text('#!/bin/sh\necho "$@, $SOURCE_DATE_EPOCH, $FORCE_SOURCE_DATE" > main.pdf\n', encoding="utf-8")
    engine.chmod(0o755)
    monkeypatch.setattr(paper.shutil, "which", lambda name: str(engine) if name == "tectonic" else None)
    monkeypatch.setattr(paper, "git", lambda *arguments: "1700000000")
    build_paper(study, write_sources(tmp_path / "sources", "text"))
    assert (study / "paper.pdf").read_text(encoding="utf-8") == "--keep-logs main.tex, 1700000000, 1\n"


def test_outside_a_repository_the_time_is_fixed(monkeypatch):
    monkeypatch.setattr(paper, "git", lambda *arguments: None)
    assert paper.reproducible()["SOURCE_DATE_EPOCH"] == "1735689600"


def test_nothing_of_an_older_build_is_left(study, tmp_path):
    stale = study / "paper" / "build" / "generated" / "stale.tex"
    stale.parent.mkdir(parents=True)
    stale.write_text("old", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper.shutil, "which", lambda name: None)
        with pytest.raises(PaperError):
            build_paper(study, write_sources(tmp_path / "sources", "text"))
    assert not stale.exists()
    assert (study / "paper" / "build" / "tables" / "arms.tex").exists()


@pytest.mark.parametrize(
    ("log", "fault"),
    [
        ("Output written on main.pdf", None),
        ("Overfull \\hbox (9.99pt too wide) in paragraph at lines 1--2", None),
        ("LaTeX Warning: Label `a' multiply defined.", "LaTeX Warning: Label `a' multiply defined."),
        ("! Emergency stop.\nLaTeX Warning: Reference `x' undefined", "! Emergency stop."),
        (
            "Package natbib Warning: Citation `who' on page 1 undefined on input line 7.",
            "Package natbib Warning: Citation `who' on page 1 undefined on input line 7.",
        ),
    ],
)
def test_first_fault_of_a_log(log, fault):
    assert first_fault(f"This is TeX\n{log}\n") == fault


def test_a_box_too_wide_is_named_with_its_file_and_its_words():
    log = (
        "(./main.tex (./macros.tex) (./sections/results.tex (./generated/scale.tex\n"
        "Overfull \\hbox (2.0pt too wide) in paragraph at lines 1--1\n"
        "[]\\T1/lmr/m/n/10.95 an unclosed (bracket\n"
        ")\n"
        "Overfull \\hbox (48.3pt too wide) in paragraph at lines 3--4\n"
        "\\T1/lmr/m/n/10.95 (+20) The scale of \\T1/lmtt/m/n/10.95 long-name \n"
    )
    assert first_fault(log) == (
        "Overfull \\hbox (48.3pt too wide) in paragraph at lines 3--4 in sections/results.tex, at "
        '"The scale of long-name"; the name of an arm or a workload may be too long there: shorten it in the config'
    )


def test_a_box_too_high_is_named_with_its_file():
    fault = first_fault("(./main.tex (./tables/runs.tex)\nOverfull \\vbox (10.5pt too high) has occurred")
    assert fault is not None
    assert fault.startswith("Overfull \\vbox (10.5pt too high) has occurred in main.tex; the name")


def test_captions_are_escaped_once(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/final_gap.json").write_text(json.dumps({"caption": "95 % of a_b"}), encoding="utf-8")
    assert captions(tmp_path) == "\\expandafter\\newcommand\\csname caption-final_gap\\endcsname{95 \\% of a\\_b}\n"


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_sidecar_that_is_not_whole_is_refused_by_name(tmp_path, text):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/final_gap.json").write_text(text, encoding="utf-8")
    with pytest.raises(PaperError, match=r"final_gap\.json: is no whole record of a figure"):
        captions(tmp_path)


def test_printed_config_is_the_study(measured_study, tmp_path):
    study = read_plan(measured_study).study
    write_config(study, tmp_path / "config.yaml")
    assert Study.model_validate(YAML(typ="safe").load(tmp_path / "config.yaml")) == study
