"""Which arms a figure or a table of the paper shows, where a study has more than can be read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import pandas as pd

from halfscale.study.arm import Arm

T = TypeVar("T")


@dataclass(frozen=True)
class Shown:
    """The arms that are shown of each workload, and the rule by which they were chosen.

    Up to the limit, all are shown. Beyond it, those at the reference's learning rate, and of arms that are the same
    runs only one; of these, where they are still too many, as many as the limit allows, evenly spread over the order
    of the config, the first and the last among them. What came out has no say in it.
    """

    arms: dict[str, list[str]]
    """By workload, in the order of the config."""
    of: dict[str, int]
    """By workload, how many there are."""
    rule: str
    """How they were chosen; empty where all are shown."""

    @classmethod
    def choose(
        cls,
        names: Mapping[str, Sequence[str]],
        most: int,
        plan: Sequence[Arm],
        repeats: Collection[tuple[str, str]],
    ) -> Self:
        """Choose from the arms that could be shown.

        Args:
            names: these arms by workload, in the order of the config.
            most: the limit of each workload.
            plan: all arms of the study.
            repeats: workload and arm of those that are the same runs as another, as repeats gives them.
        """
        usual = {arm.name for arm in plan if arm.lr_factor == 1}
        arms: dict[str, list[str]] = {}
        rule: dict[str, None] = {}
        for workload, every in names.items():
            kept = list(every)
            narrower = {
                "those at the reference's learning rate": [name for name in kept if name in usual],
                "one of any that are the same runs": [name for name in kept if (workload, name) not in repeats],
            }
            for part, chosen in narrower.items():
                left = [name for name in kept if name in chosen]
                if len(kept) > most and 0 < len(left) < len(kept):
                    kept = left
                    rule[part] = None
            if len(kept) > most:
                kept = spread(kept, most)
                rule["thinned evenly in the order of the config"] = None
            arms[workload] = kept
        return cls(arms, {workload: len(every) for workload, every in names.items()}, ", ".join(rule))

    def heading(self, workload: str) -> str:
        """Return a workload's name, and how many of its arms are shown where that is not all."""
        shown, of = len(self.arms[workload]), self.of[workload]
        return workload if shown == of else f"{workload}: {shown} of {of} arms"

    def sentence(self, rest: str = "tables/arms.csv has all") -> str:
        """Return what a caption must say of the choice, with where to find the rest; empty where all are shown."""
        cut = [
            f"{len(names)} of {self.of[workload]} of {workload}"
            for workload, names in self.arms.items()
            if len(names) < self.of[workload]
        ]
        return f"Not all arms are shown but {', '.join(cut)}: {self.rule}; {rest}." if cut else ""


def spread(items: Sequence[T], most: int) -> list[T]:
    """Return `most` of these items, evenly spread, the first and the last among them."""
    last = len(items) - 1
    return [items[round(index * last / max(1, most - 1))] for index in range(most)]


def rows_of(table: pd.DataFrame, cells: Collection[tuple[str, str]]) -> pd.DataFrame:
    """Return the rows of a table that are of these, each a workload and an arm. The table may have none at all."""
    kept = [cell in cells for cell in zip(table["workload"], table["arm"], strict=True)]
    return table[pd.Series(kept, table.index, dtype=bool)]  # an empty list would choose columns


def repeats(runs: pd.DataFrame, reference: str) -> dict[tuple[str, str], str]:
    """Return, by workload and arm, the arm that it is the same runs as: the reference, or the first in the config.

    Args:
        runs: as read_runs gives them.
        reference: the name of the study's reference.
    """
    arms_of: dict[tuple[str, ...], list[str]] = {}
    for (workload, arm), own in runs.groupby(["workload", "arm"], sort=False):
        arms_of.setdefault((str(workload), *own.sort_values("seed")["run_id"]), []).append(str(arm))
    found: dict[tuple[str, str], str] = {}
    for (workload, *_), arms in arms_of.items():
        kept = reference if reference in arms else arms[0]
        found |= {(workload, arm): kept for arm in arms if arm != kept}
    return found
