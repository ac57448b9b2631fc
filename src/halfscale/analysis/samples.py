"""What runs sampled of themselves: one row a sampled step in tables/samples.csv, and in tables/exponents.csv how the
gradient exponents of the reference are distributed.

One run is held at a time, and of each block the reference and its twin: memory does not grow with the number of runs.
"""

import csv
import math
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, read_summaries, write_csv
from halfscale.analysis.references import references, same_settings
from halfscale.numerics.formats import FP16
from halfscale.study.records import RecordError, Summary, sha256
from halfscale.study.runs import Member, Roster, make_spec
from halfscale.study.samples import BINS, read_samples
from halfscale.study.whole import whole_file

BIAS = 127
"""What FP32's exponent field exceeds the exponent by."""

FLUSHED = round(math.log2(FP16.smallest_subnormal)) - 1
"""Magnitudes below two to this, half of FP16's smallest number, are zero in it."""

KEPT = 16
"""Runs whose sketches are kept: the references of as many blocks."""

COLUMNS = [
    "workload",
    "arm",
    "seed",
    "step",
    "elements",
    "zero",
    "below_fp16",
    "moved",
    "lost_bf16",
    "lost_fp16",
    "update_ratio",
    "headroom",
    "sharpness",
    "distance",
    "distance_ratio",
]


class Sketches(NamedTuple):
    """The sketches of one run's weights."""

    steps: list[int]
    values: np.ndarray
    """(sampled steps, numbers of a sketch), float64."""

    def distances(self, other: "Sketches | None") -> list[float | None]:
        """Return the distance to another run at each step of this one; None where that has no such step, or NaN in it."""
        of_other = {} if other is None else dict(zip(other.steps, other.values, strict=True))
        missing = np.full(self.values.shape[1], np.nan)
        found = [
            float(np.linalg.norm(own - of_other.get(step, missing)))
            for step, own in zip(self.steps, self.values, strict=True)
        ]
        return [distance if np.isfinite(distance) else None for distance in found]


class Blocks:
    """The runs that others are held against: the reference and its twin in each block."""

    def __init__(self, folder: Path, plan: Roster) -> None:
        self.folder, self.plan = folder, plan
        self.references = references(plan.arms, plan.study.reference)
        self.arms = {arm.name: arm for arm in plan.arms}
        self.workloads = {workload.name: workload for workload in plan.study.workloads}
        self.sketches = lru_cache(maxsize=KEPT)(self.read)
        self.twin = cache(self.find_twin)
        self.parted = cache(self.find_parted)

    def read(self, workload: str, arm: str, seed: int) -> Sketches:
        """Return the sketches of one run."""
        spec = make_spec(self.plan.study, self.workloads[workload], self.arms[arm], seed)
        return sketches_of(read_samples(self.folder / "runs" / spec.run_id / "samples.parquet", spec))

    def find_twin(self, workload: str, reference: str) -> str | None:
        """Return the arm that is a reference but for one ulp in every initial weight; None where the workload has none."""
        base = self.arms[reference]
        return next(
            (
                arm.name
                for arm in self.plan.arms
                if arm.perturb == "ulp"
                and same_settings(arm.model_copy(update={"perturb": base.perturb}), base)
                and arm.lr_factor == base.lr_factor
                and (arm.workloads is None or workload in arm.workloads)
            ),
            None,
        )

    def find_parted(self, workload: str, reference: str, twin: str, seed: int) -> dict[int, float | None]:
        """Return by step how far the twin of a block is from the reference."""
        base = self.sketches(workload, reference, seed)
        return dict(zip(base.steps, base.distances(self.sketches(workload, twin, seed)), strict=True))

    def distances(self, member: Member, own: Sketches) -> dict[str, list[float | None]]:
        """Return at each sampled step a run's distance from its reference, and the ratio of that to the twin's.

        The ratio is None where there is no twin, or none that has parted from the reference.
        """
        reference = self.references[member.arm]
        nothing: list[float | None] = [None] * len(own.steps)
        if member.arm == reference:
            return {"distance": nothing, "distance_ratio": nothing}
        base = self.sketches(member.workload, reference, member.seed)
        away = own.distances(base)
        twin = self.twin(member.workload, reference)
        if twin is None:
            return {"distance": away, "distance_ratio": nothing}
        parted = self.parted(member.workload, reference, twin, member.seed)
        units = [parted.get(step) for step in own.steps]
        ratios = [value / unit if value is not None and unit else None for value, unit in zip(away, units, strict=True)]
        return {"distance": away, "distance_ratio": ratios}


def write_sample_tables(folder: Path) -> None:
    """Write tables/samples.csv and tables/exponents.csv of a study whose runs have ended.

    Raises:
        RecordError: the plan, a summary or samples are missing, not whole, or do not belong together.
    """
    plan = read_plan(folder)
    blocks = Blocks(folder, plan)
    counts: dict[tuple[str, int], np.ndarray] = {}
    with whole_file(folder / "tables" / "samples.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for member, summary in read_summaries(folder, plan):
            samples = read_checked_samples(folder, summary)
            writer.writerows(sample_rows(member, samples, blocks.distances(member, sketches_of(samples))))
            if member.arm == plan.study.reference:
                for step, exponents in zip(samples["step"], samples["exponents"], strict=True):
                    key = (member.workload, int(step))
                    counts[key] = counts.get(key, np.zeros(BINS, dtype=np.int64)) + exponents
    write_csv(folder / "tables" / "exponents.csv", exponent_table(counts))


def read_sample_tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read a study's tables/samples.csv and tables/exponents.csv."""
    return read_csv(folder / "tables" / "samples.csv"), read_csv(folder / "tables" / "exponents.csv")


def read_checked_samples(folder: Path, summary: Summary) -> pd.DataFrame:
    """Return a run's samples.

    Raises:
        RecordError: they are not whole, or not those that its summary was made with.
    """
    path = folder / "runs" / summary.run_id / "samples.parquet"
    samples = read_samples(path, summary.spec)
    if sha256(path) != summary.samples_sha256:
        raise RecordError(f"{path}: is not the samples that its summary was made with; delete both to have them made")
    return samples


def sketches_of(samples: pd.DataFrame) -> Sketches:
    """Return the sketches among some samples."""
    return Sketches([int(step) for step in samples["step"]], np.stack(samples["sketch"].tolist()))


def sample_rows(
    member: Member, samples: pd.DataFrame, distances: Mapping[str, list[float | None]]
) -> Iterator[dict[str, Any]]:
    """Yield a run's rows of samples.csv.

    elements: how many were looked at. zero: share of their gradients that are zero or FP32 subnormals. below_fp16: share
    of the others that are smaller than half of FP16's smallest number, and so zero in it if nothing is scaled. moved:
    share of elements that the update moved; lost_bf16, lost_fp16: share of these that it would not move as weights of
    that format. distance: L2, of all weights, from the reference of the block; distance_ratio: in units of the twin's.
    """
    names = ["moved", "lost_bf16", "lost_fp16", "update_ratio", "headroom", "sharpness"]
    scalars = samples[names].astype("float64").to_dict("records")
    counts = np.stack(samples["exponents"].tolist())
    tiny = counts[:, 1 : FLUSHED + BIAS]
    columns = (each.tolist() for each in (samples["step"], counts.sum(axis=1), counts[:, 0], tiny.sum(axis=1)))
    for index, (step, elements, zero, below) in enumerate(zip(*columns, strict=True)):
        row = scalars[index]
        moved = row["moved"]
        yield {
            "workload": member.workload,
            "arm": member.arm,
            "seed": member.seed,
            "step": step,
            "elements": elements,
            "zero": zero / elements,
            "below_fp16": share(below, elements - zero),
            "moved": known(moved / elements),
            "lost_bf16": share(row["lost_bf16"], moved),
            "lost_fp16": share(row["lost_fp16"], moved),
            **{name: known(row[name]) for name in ("update_ratio", "headroom", "sharpness")},
            **{name: values[index] for name, values in distances.items()},
        }


def known(value: float) -> float | None:
    """Return a value as CSV holds it: nothing for NaN."""
    return None if math.isnan(value) else value


def share(count: float, of: float) -> float | None:
    """Return a share; None where it is one of nothing, or of what is not known."""
    return known(count / of) if of > 0 else None


def flushed_share(exponents: pd.DataFrame, workload: str, step: int, shift: int = 0) -> float | None:
    """Return the share of a workload's non-zero gradient elements that are zero in FP16 at a scale of two to the shift.

    Args:
        exponents: of tables/exponents.csv.
        workload: its name.
        step: a sampled one.
        shift: exponent of the scale.
    """
    rows = exponents[(exponents["workload"] == workload) & (exponents["step"] == step) & exponents["exponent"].notna()]
    flushed = rows.loc[rows["exponent"] + shift < FLUSHED, "count"].sum()
    return share(float(flushed), float(rows["count"].sum()))


def arm_samples(samples: pd.DataFrame) -> pd.DataFrame:
    """Return one row a workload and arm: what its runs came to at their last sampled step, and the least headroom.

    step: the last sampled one of any run. Shares, sharpness and the ratio of distances are those of this step, the
    median over the runs that have them; headroom is the least of all sampled steps.
    """
    rows = []
    for (workload, arm), own in samples.groupby(["workload", "arm"], sort=False):
        last = own[own["step"] == own["step"].max()]
        row = {"workload": workload, "arm": arm, "step": int(own["step"].max()), "headroom": own["headroom"].min()}
        medians = ("lost_bf16", "lost_fp16", "update_ratio", "sharpness", "distance", "distance_ratio")
        rows.append(row | {name: last[name].median() for name in medians})
    return pd.DataFrame(rows)


def exponent_table(counts: Mapping[tuple[str, int], np.ndarray]) -> pd.DataFrame:
    """Return one row a workload, step and exponent that occurs: how many gradient elements of all blocks have it.

    The magnitudes of an exponent e reach from 2^e to twice that. Where it is empty, zeros and FP32 subnormals are
    counted; infinities and NaN are left out.

    Args:
        counts: by workload and step, elements by the exponent field.
    """
    rows = [
        {"workload": workload, "step": step, "exponent": field - BIAS if field else None, "count": int(number)}
        for (workload, step), histogram in counts.items()
        for field, number in enumerate(histogram[: BINS - 1])
        if number
    ]
    return pd.DataFrame(rows, columns=["workload", "step", "exponent", "count"]).astype({"exponent": "Int64"})
