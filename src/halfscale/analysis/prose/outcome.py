"""What came out, in a few sentences: for the abstract, and to open the results."""

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
    judged = measured.treatments
    judged = judged[judged["gap_n"] > 1]
    if len(judged):
        zero = int(contains_zero(judged).sum())
        sentences.append(
            f"The 95\\,\\% interval of the difference in final loss from FP32 contains zero in {zero} of {len(judged)} "
            "comparisons."
        )
    diverged = int((distinct["status"] == "diverged").sum())
    sentences.append(f"Of {len(distinct)} runs, {number_word(diverged)} {'diverges' if diverged == 1 else 'diverge'}.")
    return " ".join(sentences) + "%\n"


def completion(measured: Measured) -> str:
    """Return how many runs there are and what became of them."""
    plan, arms = measured.plan, measured.arms
    sizes = [(len(plan.study.workloads), "workload"), (len(plan.arms), "arm"), (len(plan.study.seeds), "seed")]
    text = rf"The study comprises \val{{study.runs}} runs of {listed(counted(*size) for size in sizes)}. "
    diverged = arms[arms["diverged"] > 0]
    if diverged.empty:
        text += "All of them ran to the end, and none diverged."
    else:
        rows = diverged[["diverged", "n", "arm", "workload"]].to_numpy()
        cases = [f"{of_all(*counts)} of {code(arm)} on {code(workload)}" for *counts, arm, workload in rows]
        text += f"Some diverged: {listed(cases)}. The others ran to the end."
    fallen = arms.loc[arms["fell_back"], "arm"].unique()
    if len(fallen):
        text += f" The device does not have the precision of {codes(fallen)}, which ran in FP32 instead."
    return text + "\n"
