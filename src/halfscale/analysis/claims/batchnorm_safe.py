"""batchnorm-safe."""

from halfscale.analysis.claims._practices import switch_on, wrong_ways
from halfscale.analysis.claims._verdict import Kind, Tables, Verdict, keys, untestable
from halfscale.analysis.statistics import share_interval
from halfscale.study.claims import Claims

STATEMENT = "BatchNorm needs no special handling under autocast"
RULE = (
    "Of models with BatchNorm, runs that go on after a step that the scaler skipped because the forward pass overflowed: refuted "
    "where running statistics are no longer finite in at least `blocks` of them; supported where every one of at least `blocks` "
    "runs has skipped a step and kept them finite; else inconclusive."
)
TABLES = ("practices", "practices_runs")
SHOWN = ("fig:practices", "tab:practices")

STATISTICS = ("running_mean", "running_var")
MODELS = ("resnet50", "convnet")
"""Of the models that come with halfscale, those that have BatchNorm; another one shows it by its running statistics."""


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    models = tables["settings"].set_index(["case", "arm"])["model"]
    tried = []
    for row in wrong_ways(tables, "overflow_ignored"):
        where = row["runs"]["bad_where"].fillna("").astype(str)
        poisoned = int(where.str.endswith(STATISTICS).sum())
        if poisoned or models[row["case"], row["arm"]] in MODELS:
            tried.append((poisoned, row))
    if not tried:
        return untestable("No run of a model with BatchNorm goes on after an overflow.", switch_on("overflow_ignored"))
    poisoned, row = max(tried, key=lambda each: each[0])
    runs = row["runs"]
    n = len(runs)
    low, high = share_interval(poisoned, n)
    kind: Kind = "inconclusive"
    if poisoned >= thresholds.blocks:
        kind = "refuted"
    elif (
        not poisoned
        and n >= thresholds.blocks
        and (runs["skipped"] > 0).all()
        and (runs["status"] == "completed").all()
    ):
        kind = "supported"
    after = int(row["later_finite"]) if row["later_finite"] == row["later_finite"] and poisoned else 0
    found = f"Running statistics are no longer finite in {poisoned} of {n} runs whose forward pass overflowed in a skipped step"
    found += f"; {after} training losses that follow are finite and show nothing of it." if after else "."
    return Verdict(
        kind,
        found,
        estimate=100 * poisoned / n,
        low=100 * low,
        high=100 * high,
        interval="95 % Wilson interval over runs",
        unit="% of the runs",
        n=n,
        table="tables/practices_runs.csv",
        rows=keys(case=row["case"], arm=row["arm"]),
        would_decide="more seeds, in each of which the forward pass overflows" if kind == "inconclusive" else "",
    )
