"""What the sentences are about: a study's plan and its tables."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pandas as pd

from halfscale.analysis.claims_tables import COLUMNS, read_claims_table
from halfscale.analysis.collect import read_csv, read_plan, read_runs
from halfscale.analysis.equivalence import read_equivalence_table
from halfscale.analysis.memory import read_memory_tables
from halfscale.analysis.output_dtypes import Tables, read_output_dtypes_tables
from halfscale.analysis.practices import read_practices_tables
from halfscale.analysis.probe import read_probe_tables
from halfscale.analysis.published import read_published_table
from halfscale.analysis.rates import has_sweep
from halfscale.analysis.references import references
from halfscale.analysis.roofline import read_roofline_table
from halfscale.analysis.samples import read_sample_tables
from halfscale.analysis.sensitivity import read_sensitivity_table
from halfscale.analysis.shown import repeats, rows_of
from halfscale.analysis.tables import read_arms
from halfscale.analysis.throughput import read_throughput_table
from halfscale.study.arm import Arm
from halfscale.study.runs import Roster


@dataclass(frozen=True)
class Measured:
    """A study's plan and tables."""

    plan: Roster
    runs: pd.DataFrame
    arms: pd.DataFrame
    gaps: pd.DataFrame
    samples: tuple[pd.DataFrame, pd.DataFrame] | None = None
    """The sampled steps, and the gradient exponents of the reference; None in a part of the study."""
    equivalence: pd.DataFrame | None = None
    """The comparisons with the reference, where the study has a margin."""
    sensitivity: pd.DataFrame | None = None
    """How the arms depend on the learning rate, where the study sweeps it."""
    dtypes: Tables | None = None
    """The dtypes of outputs, where the study looks at them."""
    probes: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame] | None = None
    """The operating windows, and what they predict of skips and of underflow, where the study probes gradients."""
    variants: pd.DataFrame | None = None
    """What was timed, where the study times anything."""
    memory: tuple[pd.DataFrame, pd.DataFrame] | None = None
    """What memory was predicted, and the largest batches, where the study predicts any."""
    roofline: pd.DataFrame | None = None
    """What times were predicted, where the study predicts any."""
    practices: pd.DataFrame | None = None
    """What wrong ways and remedies came to, where the study has any."""
    claims: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=COLUMNS))
    """What becomes of each claim; none in a part of the study."""

    published: pd.DataFrame | None = None
    """What others published; None in a part of the study."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a study whose tables are written.

        Raises:
            RecordError: plan.json is missing or no plan.
            OSError: a table is missing.
        """
        gaps = read_csv(folder / "tables" / "gaps.csv")
        plan = read_plan(folder)
        return cls(
            plan=plan,
            runs=read_runs(folder),
            arms=read_arms(folder),
            gaps=gaps,
            samples=read_sample_tables(folder),
            equivalence=read_equivalence_table(folder) if plan.study.experiments.equivalence else None,
            sensitivity=read_sensitivity_table(folder) if has_sweep(plan) else None,
            dtypes=read_output_dtypes_tables(folder) if plan.output_dtypes else None,
            probes=read_probe_tables(folder) if plan.probe else None,
            variants=read_throughput_table(folder) if plan.throughput else None,
            memory=read_memory_tables(folder) if plan.memory else None,
            roofline=read_roofline_table(folder) if plan.roofline else None,
            practices=read_practices_tables(folder)[0] if plan.practices else None,
            published=read_published_table(folder),
            claims=read_claims_table(folder),
        )

    def of(self, workload: str) -> Self:
        """Return the part of one workload."""
        runs, arms, gaps = (table[table["workload"] == workload] for table in (self.runs, self.arms, self.gaps))
        return type(self)(self.plan, runs, arms, gaps)

    @property
    def reference(self) -> str:
        return self.plan.study.reference

    @property
    def twins(self) -> list[str]:
        """The arms that are the reference but for one ulp in every initial weight."""
        reference = next(arm for arm in self.plan.arms if arm.name == self.reference)
        return [arm.name for arm in self.plan.arms if arm.perturb == "ulp" and alike(arm, reference)]

    @property
    def repeats(self) -> dict[tuple[str, str], str]:
        """By workload and arm, the arm that it is the same runs as: the reference, or the first of them in the config."""
        return repeats(self.runs, self.reference)

    def without_repeats(self) -> Self:
        """Return the study without the arms that are the same runs as another, so that each is counted once."""
        return type(self)(self.plan, self.once(self.runs), self.once(self.arms), self.once(self.gaps))

    def once(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table of arms without the rows of those that are the same runs as another."""
        return rows_of(table, set(zip(table["workload"], table["arm"], strict=True)) - set(self.repeats))

    @property
    def references(self) -> dict[str, str]:
        """The arm that each arm is compared with, by name."""
        return references(self.plan.arms, self.reference)

    @property
    def treatments(self) -> pd.DataFrame:
        """The rows of the arms that are neither a reference nor its twin."""
        compared = [arm for arm, other in self.references.items() if arm != other and arm not in self.twins]
        return self.arms[self.arms["arm"].isin(compared)]


def alike(arm: Arm, other: Arm) -> bool:
    """Return whether two arms are the same but for perturbation, fallback, name and workloads."""

    def treatment(arm: Arm) -> tuple[object, ...]:
        return arm.precision, arm.effective_loss_scaling, arm.lr_factor, arm.inject, arm.fp32_modules, arm.layer_scales

    return treatment(arm) == treatment(other)


def by_arm(arms: pd.DataFrame, values: pd.Series) -> dict[str, float]:
    """Return values by the name of the arm whose row they stand in."""
    return dict(zip(map(str, arms["arm"]), values, strict=True))


def contains_zero(arms: pd.DataFrame) -> pd.Series:
    return (arms["gap_low"] <= 0) & (arms["gap_high"] >= 0)
