"""What the probe predicts of underflow in the study's own FP16 runs, beside what the runs themselves sampled."""

import numpy as np
import pandas as pd

COLUMNS = ["workload", "arm", "exponent", "elements", "predicted", "observed"]


def flushed_table(
    scales: pd.DataFrame, runs: pd.DataFrame, samples: pd.DataFrame, seeds: dict[str, int]
) -> pd.DataFrame:
    """Return one row a run whose first step is the one that was probed: same weights, same batch, a scale of the probe.

    predicted: share of the gradient's elements that the probe found zero at that scale, in FP32 too or flushed.
    observed: share of zeros among the elements that the run sampled of its first gradient. They differ by sampling alone,
    by sqrt(p (1 - p) / elements) in the standard deviation.

    Args:
        scales: tables/probe_scales.csv.
        runs: tables/runs.csv, of the arms whose gradients are computed as those that were probed, at the same weights.
        samples: tables/samples.csv.
        seeds: of the probed runs, by workload; none where a step sums more gradients than the one that was probed.
    """
    known = scales[(scales["step"] == 0) & (scales["precision"] == "fp16") & ~scales["overflow"].astype(bool)]
    probed = known.assign(predicted=known["true_zero"] + known["flushed"])[["workload", "exponent", "predicted"]]
    scaled = runs[(runs["precision"] == "fp16") & (runs["seed"] == runs["workload"].map(seeds))]
    scaled = scaled.assign(exponent=np.log2(scaled["init_scale"].astype(float).fillna(1.0)))
    first = samples[samples["step"] == 0].rename(columns={"zero": "observed"})
    table = scaled[["workload", "arm", "seed", "exponent"]].merge(probed).merge(first)
    return table.astype({"exponent": int})[COLUMNS]
