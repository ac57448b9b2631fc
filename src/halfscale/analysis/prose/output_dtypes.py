"""What autocast makes of a model's outputs, one paragraph a workload, and where the devices differ."""

import pandas as pd

from halfscale.analysis.latex import breakable
from halfscale.analysis.output_dtypes import Tables
from halfscale.analysis.prose.words import code, codes, listed, number_word, val

HALVES = ("bf16", "fp16")
DEVICES = {"cpu": "the CPU", "cuda": "CUDA"}


def output_dtypes(tables: Tables) -> str:
    """Return one paragraph a workload, and one of single operations."""
    paragraphs = [
        rf"\paragraph{{{breakable(str(workload))}.}} "
        + paragraph(str(workload), tables.outputs[tables.outputs["workload"] == workload], passes)
        for workload, passes in tables.passes.groupby("workload", sort=False)
    ]
    return "\n\n".join([*paragraphs, rf"\paragraph{{Single operations.}} {operations(tables.operations)}"]) + "\n"


def paragraph(workload: str, outputs: pd.DataFrame, passes: pd.DataFrame) -> str:
    """Return how many outputs are 16-bit, which are FP32 between such, where the devices differ, and what is odd."""
    had = passes[passes["how"] != "unavailable"]
    sentences = [*shares(workload, had), between(outputs), *difference(workload, outputs, had)]
    return " ".join(filter(None, [*sentences, gradients(had), *odd(passes)]))


def shares(workload: str, passes: pd.DataFrame) -> list[str]:
    """Return how many outputs are 16-bit on each device: once for the precisions of which the same is true."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for precision, own in passes[passes["precision"].isin(HALVES)].groupby("precision", sort=False):
        found = tuple(own[["device", "half", "outputs"]].itertuples(index=False, name=None))
        alike.setdefault(found, []).append(str(precision))
    sentences = []
    for precisions in alike.values():
        own = passes[passes["precision"] == precisions[0]]
        parts = [
            f"{key(workload, row['device'], precisions[0], 'half')} of "
            f"{key(workload, row['device'], precisions[0], 'outputs')} on {DEVICES[row['device']]}"
            + (", as predicted" if row["how"] == "predicted" else "")
            for row in own.to_dict("records")
        ]
        sentences.append(
            f"Under {listed(each.upper() for each in precisions)} autocast 16-bit outputs are {listed(parts)}."
        )
    return sentences


def between(outputs: pd.DataFrame) -> str:
    """Return which kinds of output are FP32 though others before and after them are 16-bit."""
    own = outputs[outputs["between"].astype(bool)].sort_values("order")
    if own.empty:
        return "No output is FP32 between 16-bit ones."
    kinds = own.groupby("kind", sort=False)["order"].nunique()
    named = [f"{number_word(count)} of {code(str(kind))}" for kind, count in kinds.items()]
    return f"FP32 between 16-bit outputs: {listed(named)}."


def difference(workload: str, outputs: pd.DataFrame, passes: pd.DataFrame) -> list[str]:
    """Return where CPU and CUDA differ, if both are known."""
    compared = passes[passes["differs"].notna() & (passes["device"] == "cpu")]
    if compared.empty:
        return []
    own = outputs[outputs["differs"].fillna(False).astype(bool)].sort_values("order")
    if own.empty:
        return ["No output has another dtype on CUDA than on the CPU; what is computed on the way to it may."]
    counts = [
        f"{key(workload, 'cpu', str(precision), 'differs')} in {str(precision).upper()}"
        for precision in compared.loc[compared["differs"] > 0, "precision"]
    ]
    return [f"Another dtype on CUDA than on the CPU: {listed(counts)}, of {codes(own['kind'].drop_duplicates())}."]


def gradients(passes: pd.DataFrame) -> str:
    """Return what dtypes the gradients of the parameters have."""
    known = passes[passes["gradients"] != ""]
    found = {part.rsplit(" ", 1)[0] for text in known["gradients"] for part in text.split(", ")}
    if not found:
        return ""
    which = "parameters that get one" if "none" in found else "all parameters"
    dtypes = "FP32" if found - {"none"} == {"float32"} else codes(sorted(found - {"none"}))
    where = listed(DEVICES[device] for device in known["device"].drop_duplicates())
    return f"The gradients of {which} are {dtypes} in every precision, on {where}."


def odd(passes: pd.DataFrame) -> list[str]:
    """Return what was not called, and what was not to be had."""
    sentences = []
    never = list(dict.fromkeys(name for text in passes["never_called"] for name in text.split()))
    if never:
        sentences.append(f"Never called: {codes(never)}.")
    missing = passes[passes["why"] != ""]
    if len(missing):
        named = [f"{row['precision'].upper()} on {DEVICES[row['device']]}" for row in missing.to_dict("records")]
        file = code("tables/output_dtypes_passes.csv")
        sentences.append(f"Not to be had, in whole or in part: {listed(named)}; {file} says why.")
    return sentences


def operations(table: pd.DataFrame) -> str:
    """Return on which single operations the devices differ."""
    compared = table[table["differs"].notna()]
    if compared.empty:
        return "They are known of one device only."
    precision = str(compared["precision"].iloc[0])
    tried = operation_key(precision, "tried")
    differ = compared[compared["differs"].astype(bool)]
    if differ.empty:
        return f"On all {tried}, CPU and CUDA give the same dtype."
    names = codes(differ["operation"].drop_duplicates())
    widened = ((differ["cpu"] != "float32") & (differ["cuda"] == "float32")).all()
    what = "are 16-bit on the CPU and FP32 on CUDA" if widened else "have another dtype on CUDA than on the CPU"
    return (
        f"Of {tried} operations whose operands are 16-bit, {operation_key(precision, 'differs')} {what}: {names}. A model "
        "differs where one of these, or another that is not asked about here, meets 16-bit operands."
    )


def key(workload: str, device: str, precision: str, name: str) -> str:
    """Return the command of one value of a pass."""
    return val("output_dtypes", workload, device, precision, name)


def operation_key(precision: str, name: str) -> str:
    return val("autocast_operations", precision, name)
