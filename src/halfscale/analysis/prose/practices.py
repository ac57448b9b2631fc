"""What each wrong way and each remedy came to, one paragraph a case, and what is known of hardware without the units."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from halfscale.analysis.latex import breakable, escape
from halfscale.analysis.practices import first_sentence
from halfscale.analysis.prose.words import code, codes, counted, number_word, of_all, val

Row = dict[str, Any]

WRONG: dict[str, str] = {
    "clip_before_unscale": "clips the gradient while it is still multiplied by the scale",
    "update_forgotten": r"never calls \code{scaler.update()}",
    "unscaled_twice": r"calls \code{scaler.unscale\_()} twice in a step",
    "unscaled_by_hand": r"divides the gradient by the scale by hand after \code{scaler.unscale\_()} has done so",
    "half_weights": "keeps weights, gradients and optimizer state in 16 bits alone",
    "half_loss": "takes the loss of 16-bit logits in 16 bits",
    "schedule_on_skipped": "advances the learning-rate schedule on skipped steps too",
    "overflow_ignored": "goes on after a forward pass that overflowed",
}
"""What is wrong, as it follows on the name of an arm."""


def practices(arms: pd.DataFrame, native: pd.DataFrame | None) -> str:
    """Return one paragraph a case, and one on hardware.

    Args:
        arms: of tables/practices.csv.
        native: of tables/throughput.csv, where the study times anything on a device that has no units for FP16.
    """
    paragraphs = [
        rf"\paragraph{{{breakable(str(case))}.}} {paragraph(rows)}" for case, rows in arms.groupby("case", sort=False)
    ]
    return "\n\n".join([*paragraphs, rf"\paragraph{{Hardware without the units.}} {hardware(native)}"]) + "\n"


def paragraph(table: pd.DataFrame) -> str:
    """Return what the arms of one case came to: those that are refused, the other wrong ways, and the right ones."""
    rows: list[Row] = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
    reference = next(row for row in rows if row["arm"] == row["reference"])
    others = [row for row in rows if row["arm"] != row["reference"]]
    refused = [row for row in others if row["refused"] == row["n"]]
    wrong = [row for row in others if pd.notna(row["pitfall"]) and row not in refused]
    right = [row for row in others if pd.isna(row["pitfall"]) and row not in refused]
    sentences = [f"The others are held against {code(reference['arm'])}, which {ended(reference)}."]
    if refused:
        sentences.append(f"PyTorch itself refuses {codes(row['arm'] for row in refused)}.")
        sentences += [refusal(row) for row in refused]
    sentences += [wrong_way(row, reference) for row in wrong]
    sentences += [right_way(row, reference) for row in right]
    return " ".join(sentences)


def ended(row: Row) -> str:
    """Return how an arm's runs ended and what they skipped, as it follows on its name."""
    completed = "completes" if row["completed"] == row["n"] else f"completes in {of_all(row['completed'], row['n'])}"
    return f"{completed} and skips {skipped(row)}"


def skipped(row: Row) -> str:
    count = int(row["skipped"])
    return f"{number_word(count) if count else 'none'} of its {row['steps']} steps"


def refusal(row: Row) -> str:
    """Return what PyTorch says to a wrong way that it refuses."""
    first = int(row["first_bad_step"])
    when = "in its first step" if first == 0 else f"after {counted(first, 'step')}"
    return f"An arm that {what(row)} ends {when}: {quoted(row)}"


def quoted(row: Row) -> str:
    """Return PyTorch's own words, with the full stop that they end with."""
    return f"``{escape(first_sentence(str(row['said'])).removesuffix('.'))}.''"


def what(row: Row) -> str:
    return WRONG.get(str(row["pitfall"]), "is right")


def wrong_way(row: Row, reference: Row) -> str:
    """Return what a wrong way came to that PyTorch lets pass."""
    details: dict[str, Callable[[Row, Row], str]] = {
        "half_weights": lost,
        "schedule_on_skipped": first_rate,
        "overflow_ignored": afterwards,
    }
    detail = details.get(str(row["pitfall"]))
    start = f"The wrong way of {code(row['arm'])}, which {what(row)}, {result(row)}"
    told = detail(row, reference) if detail else ""
    warned: str = f" PyTorch warns of it: {quoted(row)}" if pd.notna(row["said"]) else ""
    return (f"{start}; {told}." if told else f"{start}, and skips {skipped(row)}.") + warned


def right_way(row: Row, reference: Row) -> str:
    """Return what an arm came to that is not wrong."""
    return f"{code(row['arm'])} {result(row)}, and skips {skipped(row)}."


def result(row: Row) -> str:
    """Return by how much an arm's loss differs, or how its runs failed, as it follows on its name."""
    failed = row["n"] - row["completed"]
    if not row["completed"]:
        return f"diverges in {of_all(row['diverged'], row['n'])}, first at step {key(row, 'first_bad_step')}"
    some = f" in the runs that complete, {number_word(row['completed'])} of {number_word(row['n'])}" if failed else ""
    if pd.isna(row["cost"]):
        return f"has no run to be compared with{some}"
    return f"changes the final loss by {key(row, 'cost')} nats{interval(row)}{some}"


def interval(row: Row) -> str:
    return f" [{key(row, 'cost_low')}, {key(row, 'cost_high')}]" if pd.notna(row["cost_low"]) else ""


def lost(row: Row, reference: Row) -> str:
    """Return how many updates were lost in weights of half precision."""
    if pd.isna(row["lost_updates"]) or pd.isna(reference["lost_updates"]):
        return ""
    return (
        f"of its weights with a gradient, an update leaves {key(row, 'lost_updates')}\\,\\% where they were, and "
        f"{key(reference, 'lost_updates')}\\,\\% in {code(reference['arm'])}"
    )


def first_rate(row: Row, reference: Row) -> str:
    """Return at which learning rate the first update was applied."""
    return (
        f"its first update comes at a learning rate of {key(row, 'first_lr')}, and at {key(reference, 'first_lr')} in the "
        "right way"
    )


def afterwards(row: Row, _: Row) -> str:
    """Return what came of going on after an overflow in the forward pass."""
    if pd.isna(row["later_steps"]):
        return ""
    later, finite = int(row["later_steps"]), int(row["later_finite"])
    share = f"all {later}" if later == finite else f"{finite} of the {later}"
    return (
        f"the scaler skips the step, but what is no longer finite is the buffer {code(str(row['bad_where']).removeprefix('buffer '))}; {share} training losses "
        f"that follow are finite, and the loss of its evaluation is {'not' if pd.isna(row['eval_loss']) else 'too'}"
    )


def hardware(native: pd.DataFrame | None) -> str:
    """Return what this study has timed of FP16 on hardware without its units."""
    timed = None if native is None else native[(native["status"] == "timed") & (native["precision"] == "fp16")]
    if timed is None or timed["speedup"].notna().sum() == 0:
        return "What FP16 costs in time where the hardware has no units for it was not measured in this study."
    slowest = timed.to_dict("records")[int(timed["speedup"].astype(float).argmin())]
    workload, variant = str(slowest["workload"]), str(slowest["variant"])
    return (
        f"This device has no units for FP16, and its native kernels train {code(workload)} at "
        f"{val('throughput', workload, variant, 'speedup')} times the speed of FP32."
    )


def key(row: Row, name: str) -> str:
    """Return the command of one value of an arm."""
    return val("practices", str(row["case"]), str(row["arm"]), name)
