"""RO-Crate metadata of a study's archive: what each file is, who made it, by which software, under which licence."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from halfscale.analysis.cite import drawn_figures, read_citation
from halfscale.analysis.paper import reproducible
from halfscale.machine.provenance import git_commit
from halfscale.study.runs import Roster

METADATA = "ro-crate-metadata.json"
"""Where RO-Crate has them."""

VERSION = "1.1"
"""Of RO-Crate: what repositories read by now."""

FORMATS = {
    ".bib": "application/x-bibtex",
    ".cff": "application/yaml",
    ".csv": "text/csv",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".tex": "application/x-tex",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""Media types by suffix; what has another is plain text."""


def describe_crate(folder: Path, plan: Roster, files: Mapping[str, Path], digests: Mapping[str, str]) -> str:
    """Return the metadata as JSON-LD text.

    Args:
        folder: the study's results.
        plan: of the study.
        files: what the archive holds beside the metadata, by path in it.
        digests: the SHA-256 of each, in hex.
    """
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    about, study = read_citation(), plan.study.study
    crate = ROCrate(version=VERSION)
    crate.metadata.extra_terms["sha256"] = "https://schema.org/sha256"  # of schema.org, but newer than RO-Crate 1.1
    crate.name = f"The halfscale study {study}"
    crate.description = (
        f"Tables, figures, paper and every step of the study {study} of what half precision does to training, with the "
        "config, the environment and the provenance to make them again."
    )
    # Of the commit: a time of today would make every archive another one.
    crate.datePublished = datetime.fromtimestamp(int(reproducible()["SOURCE_DATE_EPOCH"]), UTC)
    crate.license = f"https://spdx.org/licenses/{about['license']}"
    crate.keywords = ", ".join(about["keywords"])
    authors = [
        crate.add(ContextEntity(crate, f"#author-{number}", {"@type": "Organization", "name": author["name"]}))
        for number, author in enumerate(about["authors"], 1)
    ]
    crate.root_dataset["author"] = authors
    titles = {name: sidecar["title"] for name, sidecar in drawn_figures(folder).items()}
    entities = {
        name: crate.add_file(dest_path=name, properties=file_properties(name, path, digests[name], titles))
        for name, path in files.items()
    }
    commit, _ = git_commit()
    config = f"config/{study}.yaml"
    software = {"@type": "SoftwareApplication", "name": "halfscale", "version": about["version"], "identifier": commit}
    action = {
        "@type": "CreateAction",
        "name": f"The study {study}",
        "description": f"snakemake --cores all --configfile {config}",
    }
    made = crate.add(ContextEntity(crate, "#study", action))
    made["instrument"] = crate.add(ContextEntity(crate, "#halfscale", software))
    made["object"] = [entities[config], entities["requirements.lock"]]
    made["result"] = [
        entities[name] for name in files if name.startswith(("tables/", "figures/", "traces", "paper.pdf"))
    ]
    crate.root_dataset["mentions"] = [made]
    return json.dumps(crate.metadata.generate(), indent=1, ensure_ascii=False) + "\n"


def file_properties(name: str, path: Path, digest: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """Return what is said of one file. A figure is described by its title."""
    place = PurePosixPath(name)
    figure = titles.get(place.stem) if place.parts[0] == "figures" else None
    return {
        "name": place.name,
        **({"description": figure} if figure else {}),
        "encodingFormat": FORMATS.get(place.suffix, "text/plain"),
        "contentSize": str(path.stat().st_size),
        "sha256": digest,
    }
