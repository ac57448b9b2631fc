"""A finished study as one archive that can be deposited: tables, figures, the paper and its sources, traces, provenance.

The archive is laid out as a study's folder is, so that what is cited by path is found, and figures can be drawn again
from it. Same inputs, same bytes: files in a fixed order, with a fixed time, and no path or name of this machine.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyarrow.parquet import ParquetFile

from halfscale.analysis.cite import drawn_figures
from halfscale.analysis.collect import (
    read_checked_trace,
    read_csv,
    read_plan,
    read_runs,
    read_summaries,
    reading_traces,
)
from halfscale.analysis.contents import tables_of
from halfscale.analysis.crate import METADATA, describe_crate
from halfscale.analysis.environments import read_environments
from halfscale.analysis.figures import figure_inputs, figure_names, figure_paths
from halfscale.analysis.output_dtypes import read_record
from halfscale.analysis.paper import reproducible, write_config
from halfscale.analysis.samples import read_checked_samples
from halfscale.analysis.verify import manifest_of
from halfscale.errors import UserError
from halfscale.machine.provenance import REPOSITORY, git_commit, python_version, versions
from halfscale.study.practice_records import read_practices
from halfscale.study.predictions import MemoryRecord, RooflineRecord
from halfscale.study.probings import read_probe
from halfscale.study.records import sha256
from halfscale.study.runs import Roster
from halfscale.study.sealed import read_sealed
from halfscale.study.timings import read_throughput
from halfscale.study.whole import whole_file

OF_REPOSITORY = ("CITATION.cff", "LICENSE", "environment.yml", "requirements.lock")
"""What says how to cite the study, what one may do with it, and in which environment it runs."""

EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file of the archive: the earliest that a zip can say."""

ENDS = {".pdf": b"%%EOF", ".png": b"IEND\xaeB`\x82"}
"""How a whole picture ends."""

CHUNK = 2**20
"""Bytes that are read at once."""

README = """# The study {study}, by halfscale

| path | holds |
|---|---|
| `paper.pdf` | the paper; `paper/` has its sources, and `paper/macros.json` every number in it |
| `tables/` | every table, as CSV and as LaTeX |
| `figures/` | every figure, as PDF and PNG; its JSON says from which inputs, by which code and command |
| `traces.parquet` | one row a step of every run |
| `config/{study}.yaml` | the config, as one file; `plan.json` has the runs that it stands for |
| `environments.json` | where the runs were computed, with which versions and which commit |
| `provenance.json` | the hashes of all specs, the commands, and the code that made this archive |
| `requirements.lock`, `environment.yml` | the environment |
| `{metadata}` | RO-Crate metadata: every file with its SHA-256 |

To typeset the paper again, with the date that it bears: `cd paper`, then

    SOURCE_DATE_EPOCH={epoch} FORCE_SOURCE_DATE=1 latexmk -norc -pdf main.tex

To draw a figure again, or to run the study again, in a clone of halfscale at commit {commit}:

    halfscale figure FOLDER_OF_THIS_ARCHIVE final_gap
    {command}
"""


class ExportError(UserError, ValueError):
    """A study that is not finished, or whose parts do not belong together; the message names the file."""


def export_study(folder: Path, output: Path) -> None:
    """Write a finished study as one zip, which is also an RO-Crate.

    Args:
        folder: the study's results.
        output: the archive.

    Raises:
        RecordError: the folder is no study's, or a record of it is missing or not whole.
        ExportError: a table, a figure or the paper is missing, or was made from what has changed since.
        WriteError: the archive cannot be written; nothing is left of it.
    """
    plan = read_plan(folder)
    of_study = study_files(folder, plan)
    check_records(folder, plan)
    files = dict(sorted({**of_study, **paper_files(folder), **repository_files()}.items()))
    with tempfile.TemporaryDirectory() as name:
        files = dict(sorted({**files, **written_files(folder, plan, Path(name))}.items()))
        digests = {path: sha256(source) for path, source in files.items()}
        crate = Path(name) / METADATA
        crate.write_text(describe_crate(folder, plan, files, digests), encoding="utf-8", newline="\n")
        # The metadata first, so that they can be read without the rest.
        write_archive(output, {METADATA: crate, **files}, {METADATA: sha256(crate), **digests})


def study_files(folder: Path, plan: Roster) -> dict[str, Path]:
    """Return what a finished study's folder must hold, by path in the archive.

    Raises:
        ExportError: something is missing or not whole, or a figure was drawn from other inputs than these.
        RecordError: a table or the traces are not whole.
    """
    tables = [f"tables/{name}.csv" for name in tables_of(plan)]
    tables += [
        path.relative_to(folder).as_posix() for path in folder.glob("tables/[!.]*") if path.suffix in (".csv", ".tex")
    ]
    figures = [name for name in figure_names() if all((folder / path).exists() for path in figure_inputs(name))]
    names = ["plan.json", "traces.parquet", "environments.json", "paper.pdf", "paper/macros.json", *tables]
    for name in dict.fromkeys([*figures, *(path.stem for path in figure_paths(folder, "json"))]):
        names += [f"figures/{name}.{suffix}" for suffix in ("pdf", "png", "json")]
    for name in names:
        if not (folder / name).is_file():
            raise ExportError(f"{folder / name}: is missing; the study is not finished, `snakemake` goes on with it")
    for name in names:
        check_whole(folder / name)
    read_runs(folder)
    macros = folder / "paper" / "macros.json"
    try:
        json.loads(macros.read_text(encoding="utf-8"))
    except ValueError:
        raise ExportError(f"{macros}: is not whole; `halfscale macros {folder}` writes it anew") from None
    for name, sidecar in drawn_figures(folder).items():
        for source in sidecar["inputs"]:
            if not (folder / source["file"]).is_file() or sha256(folder / source["file"]) != source["sha256"]:
                raise ExportError(
                    f"{folder / 'figures' / name}.pdf: was drawn from another {source['file']} than is there; "
                    f"`halfscale figure {folder} {name}` draws it anew"
                )
    return {name: folder / name for name in names}


def check_whole(path: Path) -> None:
    """Check that a table, the traces, or a picture is whole to its end.

    Raises:
        ExportError: a picture is not.
        RecordError: a table or the traces are not.
    """
    if path.suffix == ".csv":
        read_csv(path)
    elif path.suffix == ".parquet":
        with reading_traces(path), ParquetFile(path) as traces:
            for group in range(traces.num_row_groups):
                traces.read_row_group(group)
    elif path.suffix in ENDS and not path.read_bytes().rstrip(b"\r\n").endswith(ENDS[path.suffix]):
        raise ExportError(f"{path}: is not whole; delete it to have it made again")


def check_records(folder: Path, plan: Roster) -> None:
    """Read every record of a study, which checks its digest.

    Raises:
        RecordError: one is missing, not whole, or of another spec.
    """
    for _, summary in read_summaries(folder, plan):
        read_checked_trace(folder, summary)
        read_checked_samples(folder, summary)
    for name, timed in plan.throughput.items():
        read_throughput(folder / "throughput" / name, timed)
    for name, probed in plan.probe.items():
        read_probe(folder / "probe" / name, probed)
    for name, practised in plan.practices.items():
        read_practices(folder / "practices" / name, practised)
    for name, watched in plan.output_dtypes.items():
        read_record(folder / "output_dtypes" / name, watched)
    for name, predicted in plan.memory.items():
        read_sealed(folder / "memory" / name / "memory.json", MemoryRecord, predicted)
    for name, bounded in plan.roofline.items():
        read_sealed(folder / "roofline" / name / "roofline.json", RooflineRecord, bounded)


def paper_files(folder: Path) -> dict[str, Path]:
    """Return the sources that a study's paper was typeset from, by path in the archive.

    Raises:
        ExportError: they are not there, or hold other tables, figures or numbers than the study does.
    """
    build = folder / "paper" / "build"
    # Of what TeX leaves beside its sources, all is called main.
    sources = [path for path in sorted(build.rglob("*")) if path.is_file() and not path.name.startswith(("main.", "."))]
    sources.append(build / "main.tex")
    pairs = [(build / "main.pdf", folder / "paper.pdf"), (build / "macros.tex", folder / "paper" / "macros.tex")]
    pairs += [(build / "figures" / path.name, path) for path in figure_paths(folder, "pdf")]
    pairs += [(build / "tables" / path.name, path) for path in sorted(folder.glob("tables/[!.]*.tex"))]
    for packed, own in pairs:
        if not (packed.is_file() and own.is_file()) or sha256(packed) != sha256(own):
            raise ExportError(
                f"{folder / 'paper.pdf'}: was not typeset from {own.relative_to(folder).as_posix()} as it is now; "
                f"`halfscale paper {folder}` typesets it anew"
            )
    return {f"paper/{path.relative_to(build).as_posix()}": path for path in sources}


def repository_files() -> dict[str, Path]:
    """Return what comes from the repository, by path in the archive.

    Raises:
        ExportError: this is no clone.
    """
    for name in OF_REPOSITORY:
        if not (REPOSITORY / name).is_file():
            raise ExportError(f"{REPOSITORY / name}: is missing; a study is exported by the halfscale of a clone")
    return {name: REPOSITORY / name for name in OF_REPOSITORY}


def written_files(folder: Path, plan: Roster, into: Path) -> dict[str, Path]:
    """Write what is said of the whole archive into a folder; return it by path in the archive.

    The config is written from the plan: the files that the study was given may have changed since.
    """
    study = plan.study.study
    command = f"snakemake --cores all --configfile config/{study}.yaml"
    commit, clean = git_commit()
    provenance = {
        **manifest_of(folder, plan),
        "environments": read_environments(folder).model_dump()["shares"],
        "command": command,
        "export": {
            "command": f"halfscale export results/{study}",
            "commit": commit,
            "clean": clean,
            "versions": {"python": python_version(), **versions("halfscale", "rocrate")},
        },
    }
    epoch = reproducible()["SOURCE_DATE_EPOCH"]
    texts = {
        "README.md": README.format(study=study, command=command, commit=commit, epoch=epoch, metadata=METADATA),
        "provenance.json": json.dumps(provenance, indent=1, sort_keys=True) + "\n",
    }
    for name, text in texts.items():
        (into / name).write_text(text, encoding="utf-8", newline="\n")
    write_config(plan.study, into / "config.yaml")
    return {f"config/{study}.yaml": into / "config.yaml", **{name: into / name for name in texts}}


def write_archive(output: Path, files: Mapping[str, Path], digests: Mapping[str, str]) -> None:
    """Write files as a zip.

    Args:
        output: the zip.
        files: by path in it, in the order that they get there.
        digests: the SHA-256 of each, in hex.

    Raises:
        ExportError: a file is no longer what its digest says.
        WriteError: the zip cannot be written.
    """
    with whole_file(output) as temporary, ZipFile(temporary, "w") as archive:
        for name, source in files.items():
            info = ZipInfo(name, EARLIEST)
            info.compress_type = ZIP_DEFLATED
            info.create_system = 3  # Unix, wherever this runs, for the permissions
            info.external_attr = 0o100644 << 16
            info.file_size = source.stat().st_size  # tells the zip whether it needs 64 bits
            digest = hashlib.sha256()
            with archive.open(info, "w") as target:
                for chunk in chunks(source):
                    digest.update(chunk)
                    target.write(chunk)
            if digest.hexdigest() != digests[name]:
                raise ExportError(f"{source}: was changed while the archive was written; call again")


def chunks(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes, some at a time."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
