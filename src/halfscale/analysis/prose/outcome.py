"""What came out, in a few sentences: for the abstract, and to open the results."""

from halfscale.analysis import latex
from halfscale.analysis.prose.measured import Measured, contains_zero
from halfscale.analysis.prose.words import code, codes, counted, listed, number_word, of_all, percent


def abstract_findings(measured: Measured) -> str:
    """Return the abstract's sentences on what was found."""
    distinct = measured.runs.drop_duplicates("run_id")
    scaled = distinct[distinct["loss_scaling"] != "none"]
    sentences = []
    skipped, calibration = scaled["skipped"].sum(), scaled["skipped_calibration"].sum()
    if len(scaled):
        why = f", {percent(calibration / skipped)} of them in calibration" if skipped else ""
        sentences.append(
            f"Of all steps with a scaled loss, {percent(skipped / scaled['steps'].sum())} are skipped{why}."
        )
    sentences += compared(measured)
    diverged = int((distinct["status"] == "diverged").sum())
    if diverged:
        verb = "diverges" if diverged == 1 else "diverge"
        sentences.append(f"Of {len(distinct)} runs, {number_word(diverged)} {verb}.")
    else:
        sentences.append(f"None of the {len(distinct)} runs diverges.")
    return " ".join(sentences) + "%\n"


def compared(measured: Measured) -> list[str]:
    """Return how many intervals contain zero, how wide they are, and how many arms have none because they diverged."""
    treatments = measured.treatments
    judged = treatments[treatments["gap_n"] > 1]
    if judged.empty:
        return []
    zero = int(contains_zero(judged).sum())
    half_widths = ((judged["gap_high"] - judged["gap_low"]) / 2).groupby(judged["workload"], sort=False).median()
    widths = listed(f"{latex.number(width)} nats on {code(str(name))}" for name, width in half_widths.items())
    comparisons = "comparison" if len(judged) == 1 else "comparisons"
    sentences = [
        f"The 95\\,\\% interval of the difference in final loss from FP32 contains zero in {zero or 'none'} of {len(judged)} "
        f"{comparisons}; the median half-width of these intervals is {widths}, and smaller differences may go unseen."
    ]
    lost = int(((treatments["gap_n"] < 2) & (treatments["diverged"] > 0)).sum())
    if lost:
        sentences.append(f"Divergence leaves {counted(lost, 'arm')} without a comparison.")
    return sentences


def completion(measured: Measured) -> str:
    """Return how many runs there are and what became of them."""
    plan, arms = measured.plan, measured.arms
    sizes = [(len(plan.study.workloads), "workload"), (len(plan.arms), "arm"), (len(plan.study.seeds), "seed")]
    text = rf"The study comprises \val{{study.runs}} runs of {listed(counted(*size) for size in sizes)}. "
    diverged = arms[arms["diverged"] > 0]
    if diverged.empty:
        text += "All of them ran to the end; none diverged."
    else:
        rows = diverged[["diverged", "n", "arm", "workload"]].to_numpy()
        cases = [f"{of_all(*counts)} of {code(arm)} on {code(workload)}" for *counts, arm, workload in rows]
        text += f"Some diverged: {listed(cases)}. The others ran to the end."
    text += "".join(f" {sentence}" for sentence in same_runs(measured))
    fallen = arms.loc[arms["fell_back"], "arm"].unique()
    if len(fallen):
        text += f" The device does not have the precision of {codes(fallen)}, which ran in FP32 instead."
    return text + "\n"


def same_runs(measured: Measured) -> list[str]:
    """Return which arms are the same runs as others, and on which workloads."""
    workloads: dict[tuple[str, str], list[str]] = {}
    for (workload, arm), other in measured.repeats.items():
        workloads.setdefault((arm, other), []).append(workload)
    return [
        f"{code(arm)} differs from {code(other)} in settings without effect alone: on {codes(where)} the two are the same "
        "runs, counted once and under the latter name."
        for (arm, other), where in workloads.items()
    ]
