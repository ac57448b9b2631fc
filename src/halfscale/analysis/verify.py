"""Hold a study's tables against committed ones: same, within tolerance, or different, and where.

results/reference/<study>/<platform>/ has the tables of one platform, and a manifest that says of what. What is trained
and counted repeats to the bit on the platform that it was recorded on. On another one, and for what is timed or read
from the system, a tolerance is stated.
"""

import csv
import json
import math
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from halfscale.analysis.collect import NAMES, read_plan, read_summaries
from halfscale.errors import UserError
from halfscale.study.records import Summary, sha256
from halfscale.study.runs import Roster
from halfscale.study.whole import whole_file, write_text

MEASURED_TOLERANCE = 0.25
"""Relative, of what is timed or read from the system: another load of the machine moves it as much."""

PLATFORM_TOLERANCE = 0.10
"""Relative, of a number that another platform's vector units round otherwise, step after step."""

NOT_KEPT = ("throughput_blocks",)
"""Tables that are of one measurement alone."""

TEXTS = (*NAMES, "seed", "step", "batch_size", "block")
"""Columns that say what a row is of. They are compared as text: an arm that is called 100 is not within a tenth of 105."""

CLAIMED = ("id", "statement", "rule")
"""Columns of a claim that stand before anything is measured."""

FIRST = 3
"""Cells at the start of a row that name it in a message."""

How = Literal["exact", "text", "measured", "left out"]
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
    """Return how a column of a table is compared: to the last digit on the reference's own platform, or else."""
    if column in TEXTS:
        return "text"
    match table:
        case "throughput":
            columns: dict[str, How] = {
                **dict.fromkeys(("workload", "variant", "status"), "exact"),
                **dict.fromkeys(("speedup", "scaler_cost"), "measured"),
            }
            return columns.get(column, "left out")
        case "memory":
            return {"measured": "measured", "residual": "left out"}.get(column, "exact")  # type: ignore[return-value]
        case "claims":
            # What was found stands in numbers too, of which the sentences around them are made.
            says: dict[str, How] = {"verdict": "text", **dict.fromkeys(("finding", "would_decide", "rows"), "left out")}
            return says.get(column, "exact")
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
    shutil.rmtree(target / "tables", ignore_errors=True)  # tables that the study no longer has
    kept = kept_tables(folder)
    for path in kept.values():
        with whole_file(target / "tables" / path.name) as temporary:
            shutil.copyfile(path, temporary)
    manifest["tables"] = {name: sha256(path) for name, path in kept.items()}
    write_text(target / "manifest.json", json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return target


def kept_tables(folder: Path) -> dict[str, Path]:
    """Return the tables of a study, or of a reference, that are compared, by name."""
    return {path.stem: path for path in sorted(folder.glob("tables/[!.]*.csv")) if path.stem not in NOT_KEPT}


def verify(folder: Path, root: Path) -> tuple[Path, bool, list[Compared]]:
    """Return the reference that a study was held against, whether it is of this platform, and what each table came to.

    Raises:
        VerifyError: there is no reference of this study, it is of other specs, or it is not as it was recorded.
    """
    plan = read_plan(folder)
    own = manifest_of(folder, plan)
    references = {path.parent.name: path.parent for path in sorted(root.glob(f"{plan.study.study}/*/manifest.json"))}
    if not references:
        raise VerifyError(
            f"{root}: has no reference of the study {plan.study.study!r}; `halfscale verify {shlex.quote(str(folder))} --record` "
            "makes one"
        )
    reference = references.get(own["platform"]) or next(iter(references.values()))
    kept = read_manifest(reference)
    refuse_other_specs(kept["specs"], own["specs"], reference)
    same_platform = kept["platform"] == own["platform"]
    tolerance = 0.0 if same_platform else PLATFORM_TOLERANCE
    tables = sorted({*kept["tables"], *kept_tables(folder)})
    compared = [
        compare(reference / "tables" / f"{name}.csv", folder / "tables" / f"{name}.csv", tolerance) for name in tables
    ]
    return reference, same_platform, compared


def read_manifest(reference: Path) -> dict[str, Any]:
    """Read what a reference says that it is.

    Raises:
        VerifyError: it is not whole, or its tables are not those that were recorded.
    """
    path = reference / "manifest.json"
    again = "`halfscale verify --record` records it anew"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        recorded: dict[str, str] = dict(manifest["tables"])
        if not recorded or not isinstance(manifest["platform"], str):
            raise ValueError
        manifest["specs"] = dict(manifest["specs"])
    except (ValueError, KeyError, TypeError):
        raise VerifyError(f"{path}: is no whole manifest; {again}") from None
    for name, digest in recorded.items():
        table = reference / "tables" / f"{name}.csv"
        if not table.is_file() or sha256(table) != digest:
            raise VerifyError(f"{table}: is not the table that was recorded; restore it, or {again}")
    return dict(manifest)


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
    if not reference.exists():
        return Compared(name, "different", "the reference has no such table")
    expected = read_cells(reference)
    try:
        found = read_cells(path)
    except (UnicodeDecodeError, csv.Error, IndexError):
        return Compared(name, "different", f"{path} is no table")
    other = other_shape(expected, found)
    if other:
        return Compared(name, "different", other)
    largest, where, differing = 0.0, "", []
    for column, row, before, now in differing_cells(name, expected, found):
        how = how_compared(name, column)
        allowed = {"measured": MEASURED_TOLERANCE, "text": 0.0}.get(how, tolerance)
        difference = math.inf if how == "text" else relative_difference(before, now)
        place = f"{column} of {row}: {now or 'nothing'}; the reference has {before or 'nothing'}"
        if difference > allowed:
            differing.append(place)
        elif difference > largest:
            largest, where = difference, f"at most {difference:.2g} of the value, {place}"
    if differing:
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        return Compared(name, "different", differing[0] + more)
    return Compared(name, "within tolerance", where) if where else Compared(name, "same")


def other_shape(expected: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> str:
    """Return what a table has too much or too little of, columns or rows; empty where it has neither."""
    for what, before, now in (
        ("column", list(expected[0]), list(found[0])),
        ("row", [named(row) for row in expected[1:]], [named(row) for row in found[1:]]),
    ):
        lacking, extra = Counter(before) - Counter(now), Counter(now) - Counter(before)
        if len(before) != len(now) or (what == "column" and before != now):
            parts = [f"lacks {what} {next(iter(lacking))}"] if lacking else []
            parts += [f"has another {what} {next(iter(extra))}"] if extra else []
            return f"{len(now)} {what}s; the reference has {len(before)}: it {' and '.join(parts) or 'orders them otherwise'}"
    for number, row in enumerate(found[1:], 1):
        if len(row) != len(found[0]):
            return f"row {number} ({named(row)}) has {len(row)} cells and not {len(found[0])}"
    return ""


def named(row: Sequence[str]) -> str:
    """Return what a row is called in a message."""
    return ", ".join(row[:FIRST])


def read_cells(path: Path) -> list[list[str]]:
    """Return a CSV file as text, its header first.

    Raises:
        IndexError: it is empty.
    """
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = [*csv.reader(file)] or [[]]
    if not header:
        raise IndexError(f"{path}: is empty")
    return [header, *rows]


def differing_cells(
    table: str, expected: list[list[str]], found: list[list[str]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield column, row, reference and value of each cell that is compared and not the same text."""
    header = expected[0]
    for number, (before, now) in enumerate(zip(expected[1:], found[1:], strict=True), 1):
        for column, old, new in zip(header, before, now, strict=True):
            if old == new or how_compared(table, column) == "left out":
                continue
            if column in CLAIMED or not is_timed_claim(table, before, now):
                yield column, f"row {number} ({named(before)})", old, new


def is_timed_claim(table: str, *rows: Sequence[str]) -> bool:
    """Return whether rows say what becomes of a claim about time, which the load of the machine may turn."""
    return table == "claims" and any("tables/throughput.csv" in row for row in rows)


def relative_difference(before: str, now: str) -> float:
    """Return |now - before| / |before|; infinite where one of them is no number."""
    try:
        old, new = float(before), float(now)
    except ValueError:
        return math.inf
    if old == new:
        return 0.0
    if not (math.isfinite(old) and math.isfinite(new)):
        return math.inf
    return abs(new - old) / abs(old) if old else math.inf
