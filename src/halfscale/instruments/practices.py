"""The practices instrument: every arm and seed of a case, one after another in one process.

Such a run is shorter than the start of a process. It goes through the steps of the train instrument; a wrong way
differs from the right one only there (instruments/pitfalls.py).
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from halfscale.instruments.describe import describe_environment
from halfscale.instruments.divergence import Divergence, find_explosion, find_nonfinite_parameter
from halfscale.instruments.evaluate import evaluate
from halfscale.instruments.lost_updates import LostUpdates
from halfscale.instruments.pitfalls import refusal
from halfscale.instruments.run import Run, prepare
from halfscale.instruments.train import fetch_and_check, take_step
from halfscale.study.practice_records import STEPS, Outcome, PracticesRecord, write_steps
from halfscale.study.practices import PracticesSpec
from halfscale.study.records import Effective, final_steps, finite_or_none
from halfscale.study.sealed import write_sealed
from halfscale.study.sources import instrument_digest


@dataclass(frozen=True)
class Refusal:
    """PyTorch raised in the middle of a step."""

    step: int
    said: str


def practices(
    spec: PracticesSpec, folder: Path, progress: Callable[[int], None] = lambda done: None
) -> PracticesRecord:
    """Run a case and write folder/steps.parquet, then folder/practices.json.

    Args:
        spec: what to run.
        folder: where the records go.
        progress: called after each run with the number of them so far.

    Raises:
        UnavailableError: the device is not to be had, or a precision not in effect.
        TrainingError: the model or the data cannot be trained as the spec says.
    """
    started = time.perf_counter()
    first = spec.treatments[0].run
    code = instrument_digest("halfscale.instruments.practices", first.model, first.data)
    effective: dict[str, Effective] = {}
    outcomes: list[Outcome] = []
    steps: list[pd.DataFrame] = []
    for arm, run_spec in spec.runs():
        run = prepare(run_spec)
        effective.setdefault(arm, run.effective)
        outcome, trace = train_arm(run, arm)
        outcomes.append(outcome)
        if len(trace):  # a run that is refused in its first step has none
            steps.append(trace.assign(arm=arm, seed=run_spec.seed)[STEPS.names])
        progress(len(outcomes))
    record = PracticesRecord(
        spec=spec,
        spec_hash=spec.hash,
        effective=effective,
        outcomes=outcomes,
        environment=describe_environment(run.device),
        code=code,
        seconds=time.perf_counter() - started,
        steps_sha256=write_steps(
            pd.concat(steps) if steps else pd.DataFrame(columns=STEPS.names), spec, folder / "steps.parquet"
        ),
    )
    write_sealed(record, folder / "practices.json")
    return record


def train_arm(run: Run, arm: str) -> tuple[Outcome, pd.DataFrame]:
    """Train one run; return how it ended, and its steps."""
    watch = LostUpdates(run.optimizer)
    # What PyTorch warns of under a pitfall is a finding; a right way has nothing to warn of.
    with warnings.catch_warnings(record=run.spec.pitfall is not None) as warned:
        if warned is not None:
            warnings.simplefilter("always")
        ended = take_steps(run)
    trace = run.telemetry.trace()
    if ended is None:
        ended = find_explosion(trace) or find_nonfinite_end(trace, run.spec.steps)
    said = ended.said if isinstance(ended, Refusal) else None
    if said is None and warned:
        said = " ".join(str(warned[0].message).split())
    return describe(run, arm, trace, ended, said, watch.share), trace


def take_steps(run: Run) -> Divergence | Refusal | None:
    """Train for the spec's steps; return where it went wrong, if it did.

    A run ends at its first bad step. Where that is a buffer's, the weights are still good, and a loop that looks at its
    training loss alone goes on: so does this one, to see what comes of it.
    """
    divergence: Divergence | None = None
    run.model.train()
    for step in range(run.spec.steps):
        try:
            due = take_step(run, step)
        except Exception as error:  # whatever the scaler raises
            said = refusal(run, error)
            if said is None:
                raise
            run.telemetry.fetch()
            return Refusal(step, said)
        if due or step + 1 == run.spec.steps:
            found = fetch_and_check(run)
            divergence = divergence or found
            if divergence is not None and not of_a_buffer(divergence):
                return divergence
    return divergence or find_nonfinite_parameter(run.model, run.spec.steps - 1)


def find_nonfinite_end(trace: pd.DataFrame, steps: int) -> Divergence | None:
    """Return the first step whose loss is not finite of those that the final loss is a mean of, if there is one.

    Under overflow_ignored a run goes on after such a step; where it ends with one, it has no final loss.
    """
    final = trace.tail(final_steps(steps))
    bad = final["step"][~np.isfinite(final["loss"])]
    return Divergence(int(bad.iloc[0]), "loss") if len(bad) else None


def of_a_buffer(ended: Divergence | Refusal | None) -> bool:
    return isinstance(ended, Divergence) and ended.where.startswith("buffer ")


def describe(
    run: Run, arm: str, trace: pd.DataFrame, ended: Divergence | Refusal | None, said: str | None, lost: float | None
) -> Outcome:
    """Return how a run ended. What is counted is counted up to its first bad step."""
    spec = run.spec
    completed = ended is None
    steps = trace[: ended.step + 1] if isinstance(ended, Divergence) else trace
    applied = steps[~steps["skipped"]] if len(steps) else steps
    last = steps.tail(final_steps(spec.steps))
    with_oracle = completed and last["oracle_loss"].notna().all()
    later = trace[len(steps) :] if of_a_buffer(ended) else None
    evaluation = evaluate(spec, run.model, run.data, run.effective) if completed or later is not None else None
    return Outcome(
        arm=arm,
        seed=spec.seed,
        status="completed" if completed else "refused" if isinstance(ended, Refusal) else "diverged",
        first_bad_step=None if ended is None else ended.step,
        bad_where=ended.where if isinstance(ended, Divergence) else None,
        said=said,
        steps=len(steps),
        updates=len(applied),
        skipped=len(steps) - len(applied),
        growths=int(steps["growth"].sum()) if len(steps) else 0,
        backoffs=int(steps["backoff"].sum()) if len(steps) else 0,
        final_scale=finite_or_none(run.telemetry.scales_after[len(steps) - 1]) if len(steps) else None,
        first_lr=float(applied["lr"].iloc[0]) if len(applied) else None,
        initial_loss=finite_or_none(float(trace["loss"].iloc[0])) if len(trace) else None,
        final_loss=finite_or_none(float(last["loss"].mean())) if completed else None,
        final_excess=finite_or_none(float((last["loss"] - last["oracle_loss"].astype(float)).mean()))
        if with_oracle
        else None,
        lost_updates=lost,
        eval_loss=finite_or_none(evaluation.loss) if evaluation else None,
        later_steps=None if later is None else len(later),
        later_finite=None if later is None else int(np.isfinite(later["loss"]).sum()),
    )
