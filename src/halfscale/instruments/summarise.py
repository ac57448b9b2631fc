"""From a finished run's trace to its summary."""

import pandas as pd

from halfscale.instruments.describe import describe_environment
from halfscale.instruments.divergence import Divergence
from halfscale.instruments.evaluate import Evaluation
from halfscale.study.records import Effective, Summary, final_steps, finite_or_none
from halfscale.study.spec import RunSpec


def summarise(
    spec: RunSpec,
    trace: pd.DataFrame,
    final_scale: float | None,
    divergence: Divergence | None,
    evaluation: Evaluation | None,
    effective: Effective,
    floor: float | None,
    code: str,
    seconds: float,
    trace_sha256: str,
    samples_sha256: str,
) -> Summary:
    """Return the summary of a run. Its counts are those of the trace."""
    completed = divergence is None
    last = trace.tail(final_steps(spec.steps))[["loss", "oracle_loss"]].astype("float64")
    excess = (last["loss"] - last["oracle_loss"]).mean() if last["oracle_loss"].notna().all() else None
    init_scale = trace["scale"].iloc[0] if effective.scaler_enabled else None
    return Summary(
        run_id=spec.run_id,
        spec=spec,
        spec_hash=spec.hash,
        status="completed" if completed else "diverged",
        first_bad_step=None if divergence is None else divergence.step,
        bad_where=None if divergence is None else divergence.where,
        steps=len(trace),
        updates=int(trace["updates"].iloc[-1]),
        skipped=int(trace["skipped"].sum()),
        overflows=int(trace["overflow"].sum()),
        growths=int(trace["growth"].sum()),
        backoffs=int(trace["backoff"].sum()),
        init_scale=finite_or_none(init_scale),
        final_scale=finite_or_none(final_scale),
        initial_loss=finite_or_none(trace["loss"].iloc[0]),
        final_loss=finite_or_none(last["loss"].mean()) if completed else None,
        final_excess=finite_or_none(excess) if completed else None,
        floor=floor,
        eval_loss=finite_or_none(evaluation.loss) if evaluation else None,
        eval_excess=finite_or_none(evaluation.excess) if evaluation else None,
        eval_accuracy=evaluation.accuracy if evaluation else None,
        effective=effective,
        environment=describe_environment(effective.device),
        code=code,
        seconds=seconds,
        trace_sha256=trace_sha256,
        samples_sha256=samples_sha256,
    )
