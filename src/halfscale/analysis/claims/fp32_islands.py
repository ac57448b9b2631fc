"""fp32-islands."""

from halfscale.analysis.claims._remedies import judge_remedy
from halfscale.analysis.claims._verdict import Tables, Verdict
from halfscale.study.claims import Claims

STATEMENT = "FP16 runs that overflow again and again are cured by FP32 for the layers that overflow"
RULE = (
    "In cases of the practices with an FP16 arm that skips more than `remedies.skipped` of its steps, or diverges, the arm that "
    "differs from it in modules that run in FP32 alone: supported where the interval of its share of skipped steps ends at or "
    "below `remedies.skipped` in every case, on at least `blocks` blocks; refuted where it begins above in every case; else "
    "inconclusive. A run that diverges counts as one that skips all."
)
TABLES = ("practices", "practices_runs")
SHOWN = ("fig:practices", "tab:practices")


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    return judge_remedy(
        tables, thresholds, "fp32_modules", lambda ill, cure: not ill["fp32_modules"] and bool(cure["fp32_modules"])
    )
