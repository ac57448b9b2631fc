"""amp-costs-memory-small-batch."""

from halfscale.analysis.claims._memory import counted, half_ratios, share_of_fp32
from halfscale.analysis.claims._verdict import Tables, Verdict, percent, untestable
from halfscale.study.claims import Claims

STATEMENT = "at a small batch mixed precision can need more memory than FP32"
RULE = (
    "At the smallest batch that is predicted of each case, where it is at most `amp_costs_memory_small_batch.batch_size`, the "
    "peak in 16 bits over that in FP32, counted exactly under CUDA's autocast: supported where it is above 1 in any case; "
    "inconclusive where it is not, but more is kept for the backward pass in some case than in FP32, or there are fewer than "
    "`amp_costs_memory_small_batch.cases` cases; else refuted."
)
TABLES = ("memory",)
SHOWN = ("fig:memory_by_batch", "tab:memory")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    own = thresholds.amp_costs_memory_small_batch
    ratios = half_ratios(tables, largest=False)
    ratios = ratios[ratios["batch_size"] <= own.batch_size] if len(ratios) else ratios
    if ratios.empty:
        return untestable(
            "No memory is predicted in 16 bits at so small a batch.",
            f"a case of `experiments.memory` with {own.batch_size} among its `batch_sizes`",
        )
    worst = ratios.iloc[int(ratios["ratio"].argmax())]
    cases = ratios["case"].nunique()
    common = share_of_fp32(worst, ratios["ratio"].min(), ratios["ratio"].max(), cases)
    most = f"{percent(worst['ratio'])} of FP32's peak" + (f", the most of {counted(cases)}" if cases > 1 else "")
    if worst["ratio"] > 1:
        return Verdict("supported", f"At a batch of {worst['batch_size']}, `{worst['case']}` needs {most}.", **common)
    keeps = ratios[ratios["saved_ratio"] > 1]
    found = f"No case needs more than FP32: `{worst['case']}` needs {most}."
    if len(keeps):
        far = keeps.iloc[int(keeps["saved_ratio"].argmax())]
        found += (
            f" Yet `{far['case']}` keeps {percent(far['saved_ratio'])} of what FP32 keeps for the backward pass: the copies of "
            "the weights outweigh what its activations save, but the peak does not lie there."
        )
        would = "a model with more weights for each activation, or an optimizer that keeps less"
        return Verdict("inconclusive", found, **common, would_decide=would)
    if cases < own.cases:
        return Verdict("inconclusive", found, **common, would_decide=f"{own.cases} cases at least")
    return Verdict("refuted", found, **common)
