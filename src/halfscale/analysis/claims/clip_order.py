"""clip-order."""

from halfscale.analysis.claims._practices import beyond, compared, cost_estimate, costs, switch_on, within, wrong_ways
from halfscale.analysis.claims._verdict import Tables, Verdict, untestable
from halfscale.study.claims import Claims

STATEMENT = "clipping before unscaling silently changes training"
RULE = (
    "Arms that clip the gradient while it is still scaled, held against the right way in the same block: supported where "
    "PyTorch neither refuses any run nor warns, and the interval of the cost in final loss lies beyond `wrong_ways.cost` on "
    "either side, on at least `blocks` blocks; refuted where PyTorch refuses or warns on as many, or that interval lies within; else "
    "inconclusive."
)
TABLES = ("practices", "practices_runs")
SHOWN = ("fig:practices", "tab:practices")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    rows = wrong_ways(tables, "clip_before_unscale")
    if not rows:
        return untestable("No arm clips before unscaling.", switch_on("clip_before_unscale"))
    margin = thresholds.wrong_ways.cost
    row = max(rows, key=lambda each: abs(each["cost"]) if compared(each) else -1.0)
    found = f"`{row['arm']}` {costs(row)}"
    loud = row["refused"] > 0 or row["runs"]["said"].notna().any()
    if loud and row["n"] >= thresholds.blocks:
        return Verdict("refuted", f"{found}, and PyTorch says so: {row['said']}", **cost_estimate(row))
    found += "." if loud else ", and PyTorch says nothing."
    if compared(row) < thresholds.blocks:
        return Verdict("inconclusive", found, **cost_estimate(row), would_decide=f"{thresholds.blocks} complete blocks")
    if beyond(row, margin):
        return Verdict("supported", found, **cost_estimate(row))
    if within(row, margin):
        return Verdict("refuted", found, **cost_estimate(row))
    return Verdict("inconclusive", found, **cost_estimate(row), would_decide="more seeds")
