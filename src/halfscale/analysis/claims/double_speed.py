"""double-speed."""

from halfscale.analysis.claims._timed import device_of, fastest, speedup
from halfscale.analysis.claims._verdict import Tables, Verdict, digits, untestable
from halfscale.study.claims import Claims

STATEMENT = "mixed precision doubles the speed of training on tensor cores"
RULE = (
    "On a GPU whose 16-bit matrix product is at least `units` times as fast as that in FP32, the speed-up over strict FP32 of "
    "each workload's fastest 16-bit variant: supported where its interval lies at or above `double_speed.speedup` on every "
    "workload that was timed; refuted where it lies below on any; else inconclusive, and with fewer than `blocks` blocks."
)
TABLES = ("runs", "throughput")
SHOWN = ("fig:speedup", "tab:throughput")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    gpu = "a GPU with tensor cores, with `experiments.throughput`"
    if device_of(tables) != "cuda":
        return untestable("A CPU has no tensor cores.", gpu)
    rows = fastest(tables)
    if rows.empty:
        return untestable("No 16-bit step was timed beside an FP32 one.", gpu)
    if (rows["units"] < thresholds.units).any():
        faster = digits(rows["units"].min())
        return untestable(f"This GPU's 16-bit matrix product is only {faster} times as fast as in FP32.", gpu)
    claimed = thresholds.double_speed.speedup
    slowest = rows.iloc[int(rows["speedup"].argmin())]
    found = (
        f"The fastest 16-bit variant of `{slowest['workload']}`, `{slowest['label']}`, runs at {digits(slowest['speedup'])} times "
        f"the speed of strict FP32, the least of {len(rows)} workloads."
    )
    if rows["blocks"].min() < thresholds.blocks or rows["speedup_low"].isna().any():
        return Verdict("inconclusive", found, **speedup(slowest), would_decide=f"{thresholds.blocks} blocks at least")
    if (rows["speedup_high"] < claimed).any():
        return Verdict("refuted", found, **speedup(slowest))
    if (rows["speedup_low"] >= claimed).all():
        return Verdict("supported", found, **speedup(slowest))
    return Verdict("inconclusive", found, **speedup(slowest), would_decide="more blocks, on a quieter machine")
