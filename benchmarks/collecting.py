"""What gathering a finished study costs as it grows: seconds and peak memory of collect, tables, macros and figures.

    python benchmarks/collecting.py [runs ...]

5,000 runs of 1,000 steps are to be collected into tables within 60 s and 2 GB, with memory that does not grow with them.
The runs are made up and never trained; a study of 5,000 takes half a minute to make up and 200 MB. They are of 500
arms, of which a figure shows as many as can be read.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from growth import Cost, measure, print_growth, print_load, print_row
from planning import make_config

from halfscale.study.load import load_study
from halfscale.study.records import COMPLETE, TRACE, sha256, write_summary
from halfscale.study.runs import plan_study
from halfscale.study.samples import BINS, SKETCH_WIDTH, write_samples
from halfscale.study.spec import RunSpec
from halfscale.study.whole import write_text

sys.path.append(str(Path(__file__).parents[1] / "tests" / "analysis"))
from made_up import summarize

FIGURES = ["final_gap", "loss_by_arm", "scale_trajectory", "skips_by_cause"]
"""The figures that are drawn from the training runs."""

STAGES = {
    "collect": ["collect", "."],
    "tables": ["tables", "."],
    "samples": ["tables", ".", "--of", "samples"],
    "published": ["tables", ".", "--of", "published"],
    "claims": ["tables", ".", "--of", "claims"],
    "macros": ["macros", "."],
    **{figure: ["figure", ".", figure] for figure in FIGURES},
}
"""The halfscale commands that are measured, in the order they need each other."""


def make_finished(folder: Path, runs: int) -> None:
    """Write a finished study of that many runs: plan.json, and a trace and a summary a run."""
    plan = plan_study(load_study([make_config(folder, runs)]))
    write_text(folder / "plan.json", plan.to_json())
    random = np.random.default_rng(0)
    for run_id, spec in plan.runs.items():
        write_run(folder / "runs" / run_id, spec, random)


def write_run(folder: Path, spec: RunSpec, random: np.random.Generator) -> None:
    """Write a run's trace, samples and summary."""
    folder.mkdir(parents=True)
    trace = make_trace(spec, random)
    path = folder / "trace.parquet"
    table = pa.Table.from_pandas(trace, TRACE, preserve_index=False)
    pq.write_table(table.replace_schema_metadata({"spec_hash": spec.hash, "mark": COMPLETE}), path)
    samples = write_samples(make_samples(spec), spec.steps, spec, folder / "samples.parquet")
    summary = summarize(spec, trace, sha256(path), False, {}, {}, samples)
    write_summary(summary, folder / "summary.json")


def make_samples(spec: RunSpec) -> pd.DataFrame:
    """Return samples whose sketches take no room: every number of one is the same."""
    exponents = np.zeros(BINS, dtype=np.int32)
    exponents[100:120] = 10_000
    rows = [
        {
            "step": step,
            "exponents": exponents,
            "moved": 200_000,
            "lost_bf16": 20_000,
            "lost_fp16": 2_000,
            "update_ratio": 0.01,
            "headroom": 2.0,
            "sharpness": 0.5,
            "sketch": np.full(SKETCH_WIDTH, spec.seed + 1e-3 * step),
        }
        for step in range(0, spec.steps, spec.sample_every)
    ]
    return pd.DataFrame(rows)


def make_trace(spec: RunSpec, random: np.random.Generator) -> pd.DataFrame:
    """Return a trace whose loss falls and, under dynamic loss scaling, whose scale overflows after every growth."""
    steps = np.arange(spec.steps)
    scaling = spec.loss_scaling
    dynamic = scaling.kind == "dynamic"
    place = steps % (scaling.growth_interval + 1) if dynamic else steps
    overflow = place == scaling.growth_interval if dynamic else np.zeros(len(steps), dtype=bool)
    return pd.DataFrame(
        {
            "step": steps.astype(np.int32),
            "loss": 2 + np.exp(-steps / 100) + 0.05 * random.standard_normal(len(steps)),
            "oracle_loss": np.nan,
            "lr": spec.optimizer.lr,
            "scale": np.where(overflow, 2, 1) * scaling.init_scale if dynamic else np.nan,
            "overflow": overflow,
            "skipped": overflow,
            "growth": place == scaling.growth_interval - 1 if dynamic else overflow,
            "backoff": overflow,
            "updates": (~overflow).cumsum().astype(np.int32),
            "grad_norm": random.lognormal(size=len(steps)),
            "grad_max": random.lognormal(size=len(steps)),
            "bad_parameter": np.where(overflow, "head.weight", None),
            "bad_pass": np.where(overflow, "backward", None),
        }
    )


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [500, 1000, 2500, 5000]
    costs: dict[str, dict[int, Cost]] = {stage: {} for stage in STAGES}
    print_load()
    for runs in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_finished(folder, runs)
            for stage, arguments in STAGES.items():
                costs[stage][runs] = measure([sys.executable, "-m", "halfscale", *arguments], folder)
                print_row(runs, stage, costs[stage][runs])
    for stage in STAGES:
        print_growth(stage, costs[stage])
    print_load()


if __name__ == "__main__":
    main()
