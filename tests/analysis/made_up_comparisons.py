"""What comparisons between arms come to in the made-up study: its equivalence, and a sweep of rates that nobody trained."""

import math
from pathlib import Path

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, read_runs, write_csv
from halfscale.analysis.equivalence import equivalence_table, equivalence_tex
from halfscale.analysis.sensitivity import sensitivity_table
from halfscale.study.equivalence import Equivalence, Margin
from halfscale.study.runs import Roster

EQUIVALENCE = Equivalence(margin=Margin(nats=0.01))
"""In the made-up study an arm ends 2 milli-nats above the one before it: some of them are equivalent, some not."""

RATES = (0.001, 0.003, 0.01, 0.03, 0.1)


def with_margin(plan: Roster) -> Roster:
    """Return a study that asks for equivalence."""
    study = plan.study
    experiments = study.experiments.model_copy(update={"equivalence": EQUIVALENCE})
    return plan.model_copy(update={"study": study.model_copy(update={"experiments": experiments})})


def make_equivalence(folder: Path) -> pd.DataFrame:
    """Return the comparisons of a made-up study whose tables of runs are written."""
    return equivalence_table(
        with_margin(read_plan(folder)), read_runs(folder), read_csv(folder / "tables" / "gaps.csv")
    )


def make_sweep() -> pd.DataFrame:
    """Return the runs of a sweep: parabolas in log(rate), and FP16 that diverges at the highest rate with one seed."""
    rows = [
        {
            "workload": workload,
            "arm": arm,
            "precision": arm,
            "lr": lr,
            "seed": seed,
            "status": "diverged" if bad else "completed",
            "initial_loss": 3.5,
            "final_loss": math.nan if bad else loss,
            "loss": 3.5 if bad else loss,
        }
        for workload in ("resnet50", "transformer")
        for arm in ("fp32", "bf16", "fp16")
        for lr in RATES
        for seed in (0, 1, 2)
        for bad in [arm == "fp16" and lr == RATES[-1] and seed == 1]
        for loss in [2.0 + 0.3 * math.log10(lr / 0.01) ** 2 + 0.01 * seed + 0.05 * (arm == "bf16") * lr / 0.01]
    ]
    return pd.DataFrame(rows)


def write_tables_of_comparisons(folder: Path) -> None:
    """Write tables/{equivalence,sensitivity,sensitivity_runs}.csv and equivalence.tex of a made-up study."""
    tables, equivalence, sweep = folder / "tables", make_equivalence(folder), make_sweep()
    write_csv(tables / "equivalence.csv", equivalence)
    (tables / "equivalence.tex").write_text(equivalence_tex(equivalence, EQUIVALENCE.alpha), encoding="utf-8")
    write_csv(tables / "sensitivity_runs.csv", sweep)
    write_csv(tables / "sensitivity.csv", sensitivity_table(sweep))
