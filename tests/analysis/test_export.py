"""The archive of a study: all that is needed and nothing of this machine, the same bytes each time, or refused by name."""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rocrate.rocrate import ROCrate
from ruamel.yaml import YAML
from test_paper import SOURCES, finish

from halfscale.analysis.collect import read_plan, read_runs
from halfscale.analysis.draw import draw_figure
from halfscale.analysis.export import ExportError, export_study, write_archive
from halfscale.analysis.figures import figure_inputs, figure_names
from halfscale.analysis.paper import gather
from halfscale.analysis.tables import write_tables
from halfscale.errors import UserError
from halfscale.study.config import Study
from halfscale.study.load import load_study
from halfscale.study.records import RecordError, sha256
from halfscale.study.whole import WriteError

METADATA = "ro-crate-metadata.json"


@pytest.fixture(scope="module")
def study(finished_study, tmp_path_factory):
    """A finished study with its figures and a paper that no TeX made. Read it, and change a copy."""
    folder = tmp_path_factory.mktemp("results") / "made-up"
    shutil.copytree(finished_study, folder)
    finish(folder)
    for name in figure_names():
        if all((folder / path).exists() for path in figure_inputs(name)):
            draw_figure(name, folder)
    build = folder / "paper" / "build"
    gather(folder, SOURCES, build)
    for path in (build / "main.pdf", folder / "paper.pdf"):
        path.write_bytes(b"%PDF, one would say\n%%EOF\n")
    (build / "main.log").write_text(f"This is TeX in {folder}", encoding="utf-8")
    return folder


@pytest.fixture
def copy(study, tmp_path):
    return Path(shutil.copytree(study, tmp_path / "results" / "made-up"))


@pytest.fixture(scope="module")
def archive(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "made-up.zip"
    export_study(study, path)
    return path


@pytest.fixture(scope="module")
def unpacked(archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(archive) as packed:
        assert packed.testzip() is None
        packed.extractall(folder)
    return folder


def test_it_holds_the_study_file_by_file(study, unpacked):
    for name in ("plan.json", "traces.parquet", "environments.json", "paper.pdf", "paper/macros.json"):
        assert (unpacked / name).read_bytes() == (study / name).read_bytes()
    for kind in ("tables", "figures"):
        assert sorted(path.name for path in (unpacked / kind).iterdir()) == sorted(
            path.name
            for path in (study / kind).iterdir()
            if path.suffix != ".rst"  # the HTML report's captions
        )
    for name in ("LICENSE", "CITATION.cff", "requirements.lock", "environment.yml"):
        assert (unpacked / name).read_bytes() == (SOURCES.parent / name).read_bytes()


def test_the_paper_can_be_typeset_from_it_alone(study, unpacked):
    sources = {path.relative_to(study / "paper/build") for path in (study / "paper/build").rglob("*") if path.is_file()}
    packed = {path.relative_to(unpacked / "paper") for path in (unpacked / "paper").rglob("*") if path.is_file()}
    assert packed == sources - {Path("main.pdf"), Path("main.log")} | {Path("macros.json")}
    assert {Path(name) for name in ("main.tex", "macros.tex", "references.bib", "tables/arms.tex")} <= packed


def test_its_config_is_the_study(study, unpacked):
    """One file in place of those that the study was given, which may have changed since."""
    path = unpacked / "config" / "made-up.yaml"
    assert Study.model_validate(YAML(typ="safe").load(path)) == read_plan(study).study == load_study([path])


def test_a_figure_is_drawn_from_it_as_it_was(unpacked, tmp_path):
    folder = Path(shutil.copytree(unpacked, tmp_path / "again"))
    draw_figure("final_gap", folder)
    for suffix in ("pdf", "png"):
        assert (folder / f"figures/final_gap.{suffix}").read_bytes() == (
            unpacked / f"figures/final_gap.{suffix}"
        ).read_bytes()


def test_provenance_says_of_what_the_results_are(study, unpacked):
    provenance = json.loads((unpacked / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["command"] == "snakemake --cores all --configfile config/made-up.yaml"
    assert set(provenance["specs"]) == {member.run_id for member in read_plan(study).members}
    assert provenance["environments"] == json.loads((study / "environments.json").read_text())["shares"]
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", provenance["export"]["commit"])
    assert isinstance(provenance["export"]["clean"], bool)


def test_the_metadata_name_every_file_with_its_hash(unpacked):
    """Read by the library, as a repository would."""
    crate = ROCrate(str(unpacked))
    assert crate.version == "1.1"
    entities = {entity.id: entity for entity in crate.data_entities}
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert entities.keys() == files - {METADATA}
    for name, entity in entities.items():
        content = (unpacked / name).read_bytes()
        assert entity["sha256"] == hashlib.sha256(content).hexdigest()
        assert entity["contentSize"] == str(len(content))
    assert entities["figures/final_gap.png"]["description"]
    assert entities["tables/arms.csv"]["encodingFormat"] == "text/csv"
    assert crate.root_dataset["license"] == "https://spdx.org/licenses/MIT"
    assert [author["name"] for author in crate.root_dataset["author"]] == ["The halfscale authors"]


def test_nothing_in_it_is_of_this_machine(study, unpacked):
    own = [str(Path.home()), str(study.parent), str(SOURCES.parent), str(unpacked)]
    for path in unpacked.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [word for word in own if len(word) > 1 and word.encode() in content], path


def test_same_inputs_same_bytes_wherever_the_folder_is(study, archive, tmp_path):
    folder = tmp_path / "elsewhere, é" / "made-up"
    shutil.copytree(study, folder, copy_function=shutil.copyfile)  # other times and permissions
    for path in folder.glob("tables/*"):
        os.utime(path, (10**9, 10**9))
    export_study(folder, folder / "made-up.zip")
    first = (folder / "made-up.zip").read_bytes()
    assert first == archive.read_bytes()
    export_study(folder, folder / "made-up.zip")  # the archive in the folder is no part of the next one
    assert (folder / "made-up.zip").read_bytes() == first


def test_what_killed_writers_left_gets_neither_in_the_paper_nor_in_the_archive(copy, archive):
    """Nor does what lies among the figures and is none."""
    left = ["figures/mine.pdf", "figures/mine.json"]
    left += [f"figures/.final_gap.{suffix}.0123abcd.tmp.{suffix}" for suffix in ("pdf", "png", "json", "rst")]
    left += [f"tables/.arms.{suffix}.0123abcd.tmp.{suffix}" for suffix in ("csv", "tex")]
    for name in left:
        (copy / name).write_bytes(b"half of it")
    build = copy / "paper" / "build"
    pdf = (build / "main.pdf").read_bytes()
    shutil.rmtree(build)
    gather(copy, SOURCES, build)
    (build / "main.pdf").write_bytes(pdf)
    assert not [path for path in build.rglob("*") if path.name.startswith(".") or path.stem == "mine"]
    export_study(copy, copy / "made-up.zip")
    assert (copy / "made-up.zip").read_bytes() == archive.read_bytes()


def test_every_file_of_it_has_one_time_and_may_be_read(archive):
    with zipfile.ZipFile(archive) as packed:
        infos = packed.infolist()
    assert infos[0].filename == METADATA
    assert [info.filename for info in infos[1:]] == sorted(info.filename for info in infos[1:])
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.external_attr >> 16 for info in infos} == {0o100644}


@pytest.mark.parametrize(
    "missing",
    [
        "tables/arms.csv",
        "tables/runs.csv",
        "tables/exponents.csv",
        "traces.parquet",
        "paper.pdf",
        "paper/macros.json",
        "figures/final_gap.pdf",
        "figures/skips_by_cause.json",
    ],
)
def test_an_unfinished_study_is_refused_by_name(copy, missing):
    (copy / missing).unlink()
    with pytest.raises(ExportError, match=re.escape(f"{copy / missing}: is missing; the study is not finished")):
        export_study(copy, copy / "made-up.zip")
    assert not list(copy.glob("*.zip"))


def test_numbers_that_are_cut_short_are_refused_by_name(copy):
    path = copy / "paper" / "macros.json"
    path.write_text(path.read_text(encoding="utf-8")[:-5], encoding="utf-8")
    with pytest.raises(ExportError, match=r"macros\.json: is not whole; `halfscale macros"):
        export_study(copy, copy / "made-up.zip")
    assert not list(copy.glob("*.zip"))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("tables/arms.csv", 0),
        ("tables/gaps.csv", 0.5),
        ("figures/final_gap.png", 0),
        ("figures/final_gap.png", 0.5),
        ("figures/final_gap.pdf", 0.5),
        ("paper.pdf", 0),
        ("traces.parquet", 0.5),
        ("runs/*/trace.parquet", 0.5),
        ("runs/*/samples.parquet", 0.5),
    ],
)
def test_what_is_cut_short_is_refused_by_name(copy, name, part):
    path = next(copy.glob(name))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(UserError, match=rf"^{re.escape(str(path))}: is (not|no) whole"):
        export_study(copy, copy / "made-up.zip")
    assert not list(copy.glob("*.zip"))


def test_runs_that_lost_a_row_are_refused_by_name(copy):
    path = copy / "tables" / "runs.csv"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    for read in (read_runs, write_tables, lambda folder: export_study(folder, folder / "made-up.zip")):
        with pytest.raises(RecordError, match=r"runs\.csv: has not the runs of plan\.json, each once; delete it"):
            read(copy)


def test_a_run_that_is_missing_is_refused_by_name(copy):
    summary = next(copy.glob("runs/*/summary.json"))
    summary.unlink()
    with pytest.raises(RecordError, match=re.escape(str(summary))):
        export_study(copy, copy / "made-up.zip")


def test_a_folder_that_is_no_study_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"nope/plan\.json: is not there"):
        export_study(tmp_path / "nope", tmp_path / "x.zip")
    assert list(tmp_path.iterdir()) == []


def test_a_figure_of_older_tables_is_refused_by_name(copy):
    path = copy / "tables" / "gaps.csv"
    path.write_text(path.read_text() + "\n", encoding="utf-8")
    with pytest.raises(ExportError, match=r"final_gap\.pdf: was drawn from another tables/gaps\.csv than is there"):
        export_study(copy, copy / "made-up.zip")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ("tables/arms.tex", "tables/arms.tex"),
        ("paper/macros.tex", "paper/macros.tex"),
        ("figures/final_gap.pdf", "figures/final_gap.pdf"),
        ("paper/build/tables/arms.tex", "tables/arms.tex"),
        ("paper/build/main.pdf", "paper.pdf"),
    ],
)
def test_a_paper_that_is_older_than_the_study_is_refused_by_name(copy, changed, named):
    (copy / changed).write_bytes((copy / changed).read_bytes() + b"\n")
    with pytest.raises(ExportError, match=rf"paper\.pdf: was not typeset from {re.escape(named)} as it is now"):
        export_study(copy, copy / "made-up.zip")


def test_a_place_that_cannot_be_written_is_told(study, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for output, reason in ((tmp_path / "file" / "x.zip", ""), (tmp_path, "Is a directory")):
        with pytest.raises(WriteError, match=rf"{re.escape(str(output))}: cannot be written: {reason}"):
            export_study(study, output)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


FULL_DISK = """
import sys
from pathlib import Path
from halfscale.analysis.export import export_study
from halfscale.study.whole import WriteError
try:
    export_study(Path(sys.argv[1]), Path(sys.argv[2]))
except WriteError as error:
    sys.exit(str(error))
"""


def test_a_full_disk_leaves_no_half_archive(copy, tmp_path):
    """No file may grow beyond 200 kB: what is written is refused midway, as by a disk that is full."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    output = tmp_path / "x.zip"
    command = [sys.executable, "-c", FULL_DISK, str(copy), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{output}: cannot be written: ")
    assert not list(tmp_path.glob("*x.zip*"))


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path):
    (tmp_path / "a.csv").write_text("a")
    with pytest.raises(ExportError, match=r"a\.csv: was changed while"):
        write_archive(tmp_path / "x.zip", {"a.csv": tmp_path / "a.csv"}, {"a.csv": "0"})
    assert not (tmp_path / "x.zip").exists()


NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\:\0"), min_size=1, max_size=20
).filter(lambda name: name not in (".", ".."))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=1, max_size=5, unique_by=str.casefold), content=st.binary(max_size=100))
def test_odd_names_come_back_as_they_were(tmp_path_factory, names, content):
    folder = tmp_path_factory.mktemp("odd")
    source = folder / "source"
    source.write_bytes(content)
    files = dict.fromkeys((f"tables/{name}" for name in names), source)
    output = folder / names[0] / f"{names[-1]}.zip"
    write_archive(output, files, dict.fromkeys(files, sha256(source)))
    with zipfile.ZipFile(output) as packed:
        assert packed.namelist() == list(files)
        assert all(packed.read(name) == content for name in files)
