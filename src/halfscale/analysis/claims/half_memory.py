"""half-memory."""

from halfscale.analysis.claims._memory import counted, half_ratios, share_of_fp32
from halfscale.analysis.claims._verdict import Kind, Tables, Verdict, percent, untestable
from halfscale.study.claims import Claims

STATEMENT = "mixed precision halves the memory of training"
RULE = (
    "At the largest batch that is predicted of each case, the peak in 16 bits over that in FP32, counted exactly under CUDA's "
    "autocast: supported where it is at most `half_memory.ratio` + `half_memory.tolerance` in all of at least `half_memory.cases` "
    "cases; refuted where it is more in any; inconclusive where there are fewer cases."
)
TABLES = ("memory",)
SHOWN = ("fig:memory_by_batch", "tab:memory")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    ratios = half_ratios(tables, largest=True)
    if ratios.empty:
        return untestable("No memory is predicted in 16 bits.", "a case of `experiments.memory` in FP32 and BF16")
    limit = thresholds.half_memory.ratio + thresholds.half_memory.tolerance
    low, high = ratios["ratio"].min(), ratios["ratio"].max()
    cases = ratios["case"].nunique()
    worst = ratios.iloc[int(ratios["ratio"].argmax())]
    fit = ratios.loc[ratios["ratio"] <= limit, "case"].unique()
    found = f"At the largest batch {len(fit)} of {counted(cases)} {'comes' if len(fit) == 1 else 'come'} to half of FP32's peak; "
    found += f"`{worst['case']}` needs {percent(high)} of it at a batch of {worst['batch_size']}."
    few = cases < thresholds.half_memory.cases
    kind: Kind = "refuted" if high > limit else "inconclusive" if few else "supported"
    return Verdict(
        kind,
        found,
        **share_of_fp32(worst, low, high, cases),
        would_decide=f"{thresholds.half_memory.cases} cases at least" if kind == "inconclusive" else "",
    )
