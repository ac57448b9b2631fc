"""Underflow as the probe predicts it, beside what runs sampled of their first gradient."""

import pandas as pd

from halfscale.analysis.predicted_flushed import COLUMNS, flushed_table

SCALES = pd.DataFrame(
    [
        ("net", 0, "fp32", None, False, 0.1, 0.0),
        ("net", 0, "fp16", 0, False, 0.1, 0.3),
        ("net", 0, "fp16", 10, False, 0.1, 0.05),
        ("net", 0, "fp16", 24, True, 0.1, 0.0),
        ("net", 9, "fp16", 10, False, 0.1, 0.7),
    ],
    columns=["workload", "step", "precision", "exponent", "overflow", "true_zero", "flushed"],
)
RUNS = pd.DataFrame(
    [
        ("net", "fp32", 0, "fp32", None),
        ("net", "unscaled", 0, "fp16", None),
        ("net", "static", 0, "fp16", 1024.0),
        ("net", "static", 1, "fp16", 1024.0),  # another block: other weights than those probed
        ("net", "huge", 0, "fp16", 2.0**24),  # overflowed
        ("net", "between", 0, "fp16", 1000.0),  # no scale that was probed
        ("other", "static", 0, "fp16", 1024.0),
    ],
    columns=["workload", "arm", "seed", "precision", "init_scale"],
)


def samples(rows: list[tuple[str, str, int]]) -> pd.DataFrame:
    """Two samples a run, of which the first counts."""
    made = [(*row, step, 1000, 0.4 if step == 0 else 0.9) for row in rows for step in (0, 25)]
    return pd.DataFrame(made, columns=["workload", "arm", "seed", "step", "elements", "zero"])


def test_only_what_was_probed_is_predicted() -> None:
    everything = [(row.workload, row.arm, row.seed) for row in RUNS.itertuples()]
    table = flushed_table(SCALES, RUNS, samples(everything), {"net": 0})
    assert table.to_numpy().tolist() == [
        ["net", "unscaled", 0, 1000, 0.4, 0.4],
        ["net", "static", 10, 1000, 0.15000000000000002, 0.4],
    ]


def test_nothing_that_was_probed_is_an_empty_table() -> None:
    table = flushed_table(SCALES, RUNS, samples([]), {})
    assert table.empty
    assert list(table.columns) == COLUMNS
