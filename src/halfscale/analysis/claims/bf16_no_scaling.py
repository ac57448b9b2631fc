"""bf16-no-scaling."""

from typing import Any

import pandas as pd

from halfscale.analysis.claims._arms import of_arms, plain_arms
from halfscale.analysis.claims._verdict import Tables, Verdict, digits, keys, percent, untestable
from halfscale.study.claims import Claims

STATEMENT = "BF16 has FP32's range, so that it neither underflows nor overflows and needs no loss scaling"
RULE = (
    "BF16 arms with and without loss scaling, in blocks in which the scaler skips nothing: supported where their final losses are "
    "the same number in all of at least `blocks` blocks, no unscaled run overflows, and at every probed step at most "
    "`bf16_no_scaling.flushed` of the gradient's elements are zero in BF16 and not in FP32; refuted where, on at least `blocks` "
    "blocks, a loss differs or an unscaled run overflows; else inconclusive, since gradients are probed of one seed."
)
TABLES = ("arms", "runs", "probe_scales")
SHOWN = ("fig:final_gap", "tab:arms")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    plain = plain_arms(tables, precision="bf16", loss_scaling="none")
    arms = plain_arms(tables, precision="bf16")
    scaled = arms[arms["loss_scaling"] != "none"]
    if plain.empty or scaled.empty:
        return untestable(
            "The study has no two arms in BF16, with loss scaling and without.",
            "an arm with `precision: bf16` and `loss_scaling: {kind: dynamic, always: true}`",
        )
    apart = differences(tables["runs"], plain, scaled)
    overflows = int(plain["overflows"].sum())
    flushed = flushed_in_bf16(tables)
    found = [bits(apart), f"Unscaled BF16 overflows in {overflows or 'no'} step{'' if overflows == 1 else 's'}."]
    if flushed is not None:
        found.append(f"Of the gradient's elements, {percent(flushed)} at the most are zero in BF16 and not in FP32.")
    common: dict[str, Any] = {
        "estimate": apart.max() if len(apart) else float("nan"),
        "interval": "largest of the blocks",
        "unit": "nats",
        "n": len(apart),
        "table": "tables/runs.csv",
        "rows": "; ".join(keys(workload=row.workload, arm=row.arm) for row in scaled.itertuples()),
    }
    text = " ".join(found)
    if of_arms(tables["runs"], plain)["seed"].nunique() < thresholds.blocks:
        return Verdict("inconclusive", text, **common, would_decide=f"{thresholds.blocks} seeds at least")
    if (apart != 0).any() or overflows:
        return Verdict("refuted", text, **common)
    if flushed is None:
        return Verdict("inconclusive", text, **common, would_decide="`experiments.probe`, for underflow")
    if flushed > thresholds.bf16_no_scaling.flushed:
        return Verdict("inconclusive", text, **common, would_decide="the gradients of more seeds than the one probed")
    if len(apart) < thresholds.blocks:
        return Verdict(
            "inconclusive", text, **common, would_decide=f"{thresholds.blocks} blocks without a skipped step"
        )
    return Verdict("supported", text, **common)


def differences(runs: pd.DataFrame, plain: pd.DataFrame, scaled: pd.DataFrame) -> pd.Series:
    """Return how far apart the final losses of two arms are, nats, by workload and block where both completed and nothing
    was skipped; the most, where several arms are scaled."""
    block = ["workload", "seed"]
    done = runs[(runs["status"] == "completed") & (runs["skipped"] == 0)]
    base = of_arms(done, plain).groupby(block)["final_loss"].first()
    losses = of_arms(done, scaled).set_index([*block, "arm"])["final_loss"]
    return (losses - base).abs().dropna().groupby(block).max()


def bits(apart: pd.Series) -> str:
    """Return whether the losses are the same, as a sentence."""
    if apart.empty:
        return "No block can be compared."
    if (apart == 0).all():
        return f"With and without loss scaling the final loss is the same to the last digit in all {len(apart)} blocks."
    return f"With and without loss scaling the final losses are up to {digits(apart.max())} nats apart."


def flushed_in_bf16(tables: Tables) -> float | None:
    """Return the largest share of a gradient that is zero in BF16 and not in FP32; None where nothing was probed."""
    if "probe_scales" not in tables:
        return None
    table = tables["probe_scales"]
    flushed = table.loc[table["precision"] == "bf16", "flushed"].dropna()
    return float(flushed.max()) if len(flushed) else None
