"""no-tensor-cores."""

from halfscale.analysis.claims._timed import device_of, fastest, speedup
from halfscale.analysis.claims._verdict import Tables, Verdict, digits, untestable
from halfscale.study.claims import Claims

STATEMENT = "without tensor cores, as on a CPU, mixed precision is no faster"
RULE = (
    "On a CPU, or a GPU whose 16-bit matrix product is less than `units` times as fast as that in FP32, the speed-up over FP32 "
    "of each workload's fastest 16-bit variant that is no emulation: supported where its interval ends at or below 1 + "
    "`no_tensor_cores.tolerance` on every workload that was timed; refuted where it begins above on any; else inconclusive, and "
    "with fewer than `blocks` blocks."
)
TABLES = ("runs", "throughput")
SHOWN = ("fig:speedup", "tab:throughput")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    rows = fastest(tables)
    if rows.empty:
        return untestable(
            "No 16-bit format that the device has was timed beside FP32.",
            "a device that has units for BF16 or FP16 and no tensor cores, with `experiments.throughput`",
        )
    if device_of(tables) == "cuda" and (rows["units"] >= thresholds.units).any():
        return untestable("This GPU has tensor cores.", "a CPU, or a GPU without them")
    limit = 1 + thresholds.no_tensor_cores.tolerance
    best = rows.iloc[int(rows["speedup"].argmax())]
    found = (
        f"The fastest 16-bit variant of `{best['workload']}`, `{best['label']}`, runs at {digits(best['speedup'])} times the speed "
        f"of FP32, on a device whose 16-bit matrix product is {digits(best['units'])} times as fast."
    )
    if rows["blocks"].min() < thresholds.blocks or rows["speedup_low"].isna().any():
        return Verdict("inconclusive", found, **speedup(best), would_decide=f"{thresholds.blocks} blocks at least")
    if (rows["speedup_low"] > limit).any():
        return Verdict("refuted", found, **speedup(best))
    if (rows["speedup_high"] <= limit).all():
        return Verdict("supported", found, **speedup(best))
    would = "more blocks, on a quieter machine" if rows["disturbed"].astype(bool).any() else "more blocks"
    return Verdict("inconclusive", found, **speedup(best), would_decide=would)
