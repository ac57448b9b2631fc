"""forgotten-update."""

from halfscale.analysis.claims._practices import beyond, compared, cost_estimate, costs, switch_on, within, wrong_ways
from halfscale.analysis.claims._verdict import Tables, Verdict, keys, untestable
from halfscale.analysis.statistics import share_interval
from halfscale.study.claims import Claims

STATEMENT = "leaving out `scaler.update()` breaks training"
RULE = (
    "Arms that never call `scaler.update()`, held against the right way in the same block: supported where every one of at least "
    "`blocks` runs is refused by PyTorch or diverges, or the interval of the cost in final loss lies beyond `wrong_ways.cost` on "
    "either side; refuted where every run completes and that interval lies within; else inconclusive."
)
TABLES = ("practices", "practices_runs")
SHOWN = ("fig:practices", "tab:practices")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    rows = wrong_ways(tables, "update_forgotten")
    if not rows:
        return untestable("No arm leaves out `scaler.update()`.", switch_on("update_forgotten"))
    margin = thresholds.wrong_ways.cost
    row = max(rows, key=lambda each: each["completed"])  # the one that is broken least
    broken = int(row["n"] - row["completed"])
    if broken == row["n"]:
        found = f"No run of `{row['arm']}` ends: PyTorch refuses {row['refused']} of {row['n']}"
        found += f", and {row['diverged']} diverge." if row["diverged"] else f". It says: {row['said']}"
        low, high = share_interval(broken, int(row["n"]))
        few = row["n"] < thresholds.blocks
        return Verdict(
            "inconclusive" if few else "supported",
            found,
            estimate=100.0,
            low=100 * low,
            high=100 * high,
            interval="95 % Wilson interval over runs",
            unit="% of the runs broken",
            n=int(row["n"]),
            table="tables/practices.csv",
            rows=keys(case=row["case"], arm=row["arm"]),
            would_decide=f"{thresholds.blocks} seeds at least" if few else "",
        )
    found = f"`{row['arm']}` {costs(row)}; {row['completed']} of its {row['n']} runs complete."
    if compared(row) >= thresholds.blocks and beyond(row, margin):
        return Verdict("supported", found, **cost_estimate(row))
    if compared(row) >= thresholds.blocks and not broken and within(row, margin):
        return Verdict("refuted", found, **cost_estimate(row))
    return Verdict("inconclusive", found, **cost_estimate(row), would_decide="more seeds")
