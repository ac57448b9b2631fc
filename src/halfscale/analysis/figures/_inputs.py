"""What the figures read: the plan's arms, and tables and traces in the plan's order."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from halfscale.analysis.collect import read_csv, reading_traces
from halfscale.analysis.references import references
from halfscale.analysis.shown import Shown, repeats
from halfscale.analysis.style import arm_colours
from halfscale.study.arm import Arm


@dataclass(frozen=True)
class Arms:
    """The arms of a study in plan order, which is the order of every figure."""

    arms: tuple[Arm, ...]
    reference: str
    workloads: tuple[str, ...]

    @property
    def colours(self) -> dict[str, str]:
        """The colour of each arm by name."""
        return arm_colours(self.arms)

    @property
    def references(self) -> dict[str, str]:
        """The arm that each arm is compared with, by name."""
        return references(self.arms, self.reference)

    @property
    def twins(self) -> list[str]:
        """The reference's twins: the same precision, initial weights moved by one ulp. Their gap is noise."""
        precision = next(arm.precision for arm in self.arms if arm.name == self.reference)
        return [arm.name for arm in self.arms if arm.perturb == "ulp" and arm.precision == precision]

    def in_order(self, names: Iterable[str]) -> list[Arm]:
        """Return the arms that are named, in plan order."""
        present = set(names)
        return [arm for arm in self.arms if arm.name in present]


def choose_arms(arms: Arms, runs: pd.DataFrame, names: Mapping[str, Sequence[str]], most: int) -> Shown:
    """Return which of these arms, by workload, a figure shows, as Shown says.

    Args:
        arms: of the study.
        runs: as read_table gives them.
        names: the arms that the figure could show, by workload.
        most: how many it has room for on a page, shared by its workloads.
    """
    return Shown.choose(names, max(1, most // len(names)), arms.arms, repeats(runs, arms.reference))


def read_arms(folder: Path) -> Arms:
    """Read the arms of plan.json.

    Only they are checked, not the whole plan: its models may be a user's own package that is not installed where
    the figures are drawn.
    """
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    study = plan["study"]
    return Arms(
        arms=tuple(Arm.model_validate_json(json.dumps(arm)) for arm in plan["arms"]),
        reference=study["reference"],
        workloads=tuple(workload["name"] for workload in study["workloads"]),
    )


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """Read tables/<name>.csv."""
    return read_csv(folder / "tables" / f"{name}.csv")


def read_traces(folder: Path, columns: list[str], arms: Iterable[str]) -> pd.DataFrame:
    """Read columns of the traces of these arms, with workload, arm and seed; losses that are not finite become NaN.

    Raises:
        OSError: traces.parquet is missing.
        RecordError: it is cut short, or is not what this version writes.
    """
    path = folder / "traces.parquet"
    with reading_traces(path):
        traces = pd.read_parquet(
            path,
            columns=["workload", "arm", "seed", *columns],
            filters=pc.field("arm").isin(pa.array(sorted(set(arms)), pa.string())),  # typed, for it may be empty
        )
    return traces.astype({"workload": str, "arm": str}).replace([np.inf, -np.inf], np.nan)


def diverged_runs(runs: pd.DataFrame) -> dict[tuple[str, str, int], int]:
    """Return the first bad step of the runs that diverged, by workload, arm and seed."""
    rows = runs.loc[runs["status"] == "diverged", ["workload", "arm", "seed", "first_bad_step"]]
    return {
        (str(workload), str(arm), int(seed)): int(step) for workload, arm, seed, step in rows.itertuples(index=False)
    }


def diverged_by_arm(runs: pd.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """Return (diverged runs, all runs) by workload and arm."""
    groups = (runs["status"] == "diverged").groupby([runs["workload"], runs["arm"]])
    return {(str(workload), str(arm)): (int(bad.sum()), len(bad)) for (workload, arm), bad in groups}
