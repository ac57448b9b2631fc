"""What the sentences are about: a study's plan and its tables."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, read_runs
from halfscale.analysis.tables import read_arms
from halfscale.study.runs import Plan


@dataclass(frozen=True)
class Measured:
    """A study's plan and tables."""

    plan: Plan
    runs: pd.DataFrame
    arms: pd.DataFrame
    gaps: pd.DataFrame

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a study whose tables are written.

        Raises:
            RecordError: plan.json is missing or no plan.
            OSError: a table is missing.
        """
        gaps = read_csv(folder / "tables" / "gaps.csv")
        return cls(plan=read_plan(folder), runs=read_runs(folder), arms=read_arms(folder), gaps=gaps)

    def of(self, workload: str) -> Self:
        """Return the part of one workload."""
        parts = (table[table["workload"] == workload] for table in (self.runs, self.arms, self.gaps))
        return type(self)(self.plan, *parts)

    @property
    def reference(self) -> str:
        return self.plan.study.reference

    @property
    def twins(self) -> list[str]:
        """The arms that are the reference but for one ulp in every initial weight."""
        arms = (arm for arm in self.plan.arms if arm.precision == "fp32" and arm.inject is None)
        return [arm.name for arm in arms if arm.perturb == "ulp"]

    @property
    def treatments(self) -> pd.DataFrame:
        """The rows of the arms that are neither the reference nor its twin."""
        return self.arms[~self.arms["arm"].isin([self.reference, *self.twins])]


def by_arm(arms: pd.DataFrame, values: pd.Series) -> dict[str, float]:
    """Return values by the name of the arm whose row they stand in."""
    return dict(zip(map(str, arms["arm"]), values, strict=True))


def contains_zero(arms: pd.DataFrame) -> pd.Series:
    return (arms["gap_low"] <= 0) & (arms["gap_high"] >= 0)
