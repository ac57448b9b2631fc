"""Hold a study's tables against committed ones: same, within tolerance, or different, and where.

results/reference/<study>/<platform>/ has the tables of one platform, and a manifest that says of what. What is trained
and counted repeats to the bit on the platform that it was recorded on. On another one, and for what is timed or read
from the system, a tolerance is stated.
"""

import csv
import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from halfscale.analysis.collect import read_plan, read_summaries
from halfscale.errors import UserError
from halfscale.study.records import Summary
from halfscale.study.runs import Roster
from halfscale.study.whole import whole_file, write_text

MEASURED_TOLERANCE = 0.25
"""Relative, of what is timed or read from the system: another load of the machine moves it as much."""

PLATFORM_TOLERANCE = 0.10
"""Relative, of a number that another platform's vector units round otherwise, step after step."""

NOT_KEPT = ("throughput_blocks",)
"""Tables that are of one measurement alone."""

How = Literal["exact", "measured", "left out"]
Verdict = Literal["same", "within tolerance", "different"]


class VerifyError(UserError, ValueError):
    """There is no reference to verify with, or it is of another study."""


@dataclass(frozen=True)
class Compared:
    """A table held against its reference."""

    table: str
    verdict: Verdict
    where: str = ""
    """The first difference that is too large, or the largest that is not."""


def how_compared(table: str, column: str) -> How:
    """Return how a column of a table is compared."""
    match table:
        case "throughput":
            columns: dict[str, How] = {
                **dict.fromkeys(("workload", "variant", "status"), "exact"),
                **dict.fromkeys(("speedup", "scaler_cost"), "measured"),
            }
            return columns.get(column, "left out")
        case "memory":
            return {"measured": "measured", "residual": "left out"}.get(column, "exact")  # type: ignore[return-value]
        case _:
            return "exact"


def record_reference(folder: Path, root: Path) -> Path:
    """Keep a finished study's tables as the reference of this platform; return the folder that they are in.

    Args:
        folder: the study's results.
        root: what all references lie in, such as results/reference.
    """
    plan = read_plan(folder)
    manifest = manifest_of(folder, plan)
    target = root / plan.study.study / manifest["platform"]
    for path in sorted((folder / "tables").glob("*.csv")):
        if path.stem not in NOT_KEPT:
            with whole_file(target / "tables" / path.name) as temporary:
                shutil.copyfile(path, temporary)
    write_text(target / "manifest.json", json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return target


def verify(folder: Path, root: Path) -> tuple[Path, bool, list[Compared]]:
    """Return the reference that a study was held against, whether it is of this platform, and what each table came to.

    Raises:
        VerifyError: there is no reference of this study, or it is of other specs.
    """
    plan = read_plan(folder)
    own = manifest_of(folder, plan)
    references = {path.parent.name: path.parent for path in sorted(root.glob(f"{plan.study.study}/*/manifest.json"))}
    if not references:
        raise VerifyError(
            f"{root}: has no reference of the study {plan.study.study!r}; `halfscale verify --record` makes one"
        )
    reference = references.get(own["platform"]) or next(iter(references.values()))
    kept = json.loads((reference / "manifest.json").read_text(encoding="utf-8"))
    refuse_other_specs(kept["specs"], own["specs"], reference)
    same_platform = kept["platform"] == own["platform"]
    tolerance = 0.0 if same_platform else PLATFORM_TOLERANCE
    tables = sorted((reference / "tables").glob("*.csv"))
    return reference, same_platform, [compare(path, folder / "tables" / path.name, tolerance) for path in tables]


def manifest_of(folder: Path, plan: Roster) -> dict[str, Any]:
    """Return what a study's results are of: the specs by hash, the platform, the versions and the commit."""
    summaries = [summary for _, summary in read_summaries(folder, plan)]
    first = summaries[0]
    experiments = {
        f"{kind} {name}": spec.hash
        for kind, specs in plan
        if isinstance(specs, dict)  # of what is measured beside the runs
        for name, spec in specs.items()
    }
    return {
        "study": plan.study.study,
        "platform": platform_of(first),
        "specs": {**{summary.run_id: summary.spec_hash for summary in summaries}, **experiments},
        "environment": first.environment.model_dump(),
    }


def platform_of(summary: Summary) -> str:
    """Return what decides the last bits of a result, as the name of a folder: device, its units, torch's version."""
    environment = summary.environment
    units = [] if summary.effective.device == "cuda" else [environment.cpu_capability, *environment.cpu_features]
    parts = [environment.device, *units, f"torch-{environment.torch.split('+')[0]}"]
    return "_".join(re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-") for part in parts)


def refuse_other_specs(kept: dict[str, str], own: dict[str, str], reference: Path) -> None:
    """Check that a reference is of the same specs.

    Raises:
        VerifyError: it is not; the message counts them and names the first.
    """
    differing = sorted(name for name in kept.keys() | own.keys() if kept.get(name) != own.get(name))
    if differing:
        raise VerifyError(
            f"{reference}: is of another study of this name: {len(differing)} of {len(kept.keys() | own.keys())} specs "
            f"differ, the first {differing[0]}"
        )


def compare(reference: Path, path: Path, tolerance: float) -> Compared:
    """Compare a table with its reference, cell by cell.

    Args:
        reference: a CSV file.
        path: the one that is held against it.
        tolerance: relative, of numbers that would be the same to the bit on one platform.
    """
    name = reference.stem
    if not path.exists():
        return Compared(name, "different", f"{path} is missing")
    expected, found = read_cells(reference), read_cells(path)
    if expected[0] != found[0]:
        return Compared(name, "different", "it has other columns")
    if len(expected) != len(found):
        return Compared(name, "different", f"{len(found) - 1} rows; the reference has {len(expected) - 1}")
    largest, where = 0.0, ""
    for column, row, before, now in differing_cells(name, expected, found):
        allowed = MEASURED_TOLERANCE if how_compared(name, column) == "measured" else tolerance
        difference = relative_difference(before, now)
        place = f"{column} of {row}: {now or 'nothing'}; the reference has {before or 'nothing'}"
        if difference > allowed:
            return Compared(name, "different", place)
        if difference > largest:
            largest, where = difference, f"at most {difference:.2g} of the value, {place}"
    return Compared(name, "within tolerance", where) if where else Compared(name, "same")


def read_cells(path: Path) -> list[list[str]]:
    """Return a CSV file as text, its header first."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def differing_cells(
    table: str, expected: list[list[str]], found: list[list[str]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield column, row, reference and value of each cell that is compared and not the same text."""
    header = expected[0]
    for number, (before, now) in enumerate(zip(expected[1:], found[1:], strict=True), 1):
        for column, old, new in zip(header, before, now, strict=True):
            if old != new and how_compared(table, column) != "left out":
                yield column, f"row {number} ({', '.join(before[:3])})", old, new


def relative_difference(before: str, now: str) -> float:
    """Return |now - before| / |before|; infinite where one of them is no number."""
    try:
        old, new = float(before), float(now)
    except ValueError:
        return math.inf
    if not (math.isfinite(old) and math.isfinite(new)):
        return math.inf
    return abs(new - old) / abs(old) if old else math.inf
