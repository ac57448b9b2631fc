"""half-transfer."""

from halfscale.analysis.claims._timed import HALF, device_of
from halfscale.analysis.claims._verdict import Kind, Tables, Verdict, digits, keys, untestable
from halfscale.study.claims import Claims

STATEMENT = "16-bit batches move from host to device in half the time"
RULE = (
    "On CUDA, the time to move the inputs of a batch in 16 bits over that in FP32, by workload whose inputs are no whole numbers "
    "and by format: supported where it is at most `half_transfer.ratio` + `half_transfer.tolerance` in all of at least `blocks` "
    "measurements; refuted where it is more in all; else inconclusive."
)
TABLES = ("runs", "throughput")
SHOWN = ("fig:step_phases", "tab:throughput")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    gpu = "a GPU, with `experiments.throughput` of a workload of images in FP32 and a 16-bit format"
    if device_of(tables) != "cuda":
        return untestable("A CPU has no device to move a batch to.", gpu)
    ratios = transfer_ratios(tables)
    if not ratios:
        return untestable("No batch was moved in FP32 and in 16 bits.", gpu)
    limit = thresholds.half_transfer.ratio + thresholds.half_transfer.tolerance
    (workload, precision), worst = max(ratios.items(), key=lambda item: item[1])
    found = f"The inputs of `{workload}` take {digits(worst)} of the time of FP32 to move as {precision.upper()}."
    fit = [ratio <= limit for ratio in ratios.values()]
    kind: Kind = "supported" if all(fit) else "inconclusive" if any(fit) else "refuted"
    few = len(ratios) < thresholds.blocks
    return Verdict(
        "inconclusive" if few else kind,
        found,
        estimate=100 * worst,
        low=100 * min(ratios.values()),
        high=100 * worst,
        interval="range of the measurements",
        unit="% of the time in FP32",
        n=len(ratios),
        table="tables/throughput.csv",
        rows=keys(workload=workload, precision=precision),
        would_decide="a larger batch, and more formats" if few or kind == "inconclusive" else "",
    )


def transfer_ratios(tables: Tables) -> dict[tuple[str, str], float]:
    """Return the time to move a batch in each 16-bit format over that in FP32, by workload and format."""
    if "throughput" not in tables:
        return {}
    table = tables["throughput"]
    moved = table[table["transfer_ms"].notna()].drop_duplicates(["workload", "precision"])
    times = {(str(row.workload), str(row.precision)): float(str(row.transfer_ms)) for row in moved.itertuples()}
    # Tokens have one format: whatever the precision, the same number stands there.
    return {
        (workload, precision): time / times[workload, "fp32"]
        for (workload, precision), time in times.items()
        if precision in HALF and times.get((workload, "fp32"), time) != time
    }
