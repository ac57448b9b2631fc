"""From watched forward passes to tables/output_dtypes*.csv, tables/autocast_operations.csv, and their LaTeX.

A CPU's autocast and CUDA's are two treatments: what they give stands side by side and is never pooled.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, write_csv
from halfscale.analysis.latex import MISSING, Column, breakable, longtable, number
from halfscale.study.output_dtypes import OutputDtypesSpec
from halfscale.study.passes import Output, OutputDtypesRecord, Pass, Ruling
from halfscale.study.sealed import read_sealed
from halfscale.study.whole import write_text

HALF = ("bfloat16", "float16")
WRITTEN = {"float32": "FP32", "bfloat16": "BF16", "float16": "FP16"}
"""Dtypes as they are written; others go by torch's names."""

NO_TENSOR, NO_KERNEL = "no tensor", "no kernel"
"""In place of a dtype: the output holds no tensor; the device cannot compute this operation in this format."""

MODEL = "(model)"
"""The name of the model itself among its modules."""

CELLS = (("bf16", "cpu"), ("bf16", "cuda"), ("fp16", "cpu"), ("fp16", "cuda"))
"""Columns of the LaTeX tables: in FP32 there is nothing to decide."""


RAGGED = r">{\raggedright\arraybackslash}p{%.1fcm}"
"""A column of text that may break."""


class Tables(NamedTuple):
    """The tables of output dtypes."""

    outputs: pd.DataFrame
    """One row an output, a device and a precision: tables/output_dtypes.csv."""
    passes: pd.DataFrame
    """One row a workload, a device and a precision: tables/output_dtypes_passes.csv."""
    operations: pd.DataFrame
    """One row an operation and a precision: tables/autocast_operations.csv."""


FILES = ("output_dtypes", "output_dtypes_passes", "autocast_operations")
"""Of Tables, in its order."""


def write_output_dtypes_tables(folder: Path) -> None:
    """Write the tables of a study that looks at outputs, and tables/output_dtypes.tex.

    Raises:
        RecordError: the plan or a record is missing or not whole.
    """
    specs = read_plan(folder).output_dtypes
    tables = make_tables({name: read_record(folder / "output_dtypes" / name, spec) for name, spec in specs.items()})
    for name, table in zip(FILES, tables, strict=True):
        write_csv(folder / "tables" / f"{name}.csv", table)
    write_text(folder / "tables" / "output_dtypes.tex", outputs_tex(tables.outputs) + operations_tex(tables.operations))


def read_output_dtypes_tables(folder: Path) -> Tables:
    """Read the tables of a study that looks at outputs."""
    outputs, passes, operations = (read_csv(folder / "tables" / f"{name}.csv") for name in FILES)
    text = dict.fromkeys(("gradients", "never_called", "why"), "")
    return Tables(
        outputs.astype({"differs": "boolean"}),
        passes.astype({"differs": "Int64", **dict.fromkeys(text, object)}).fillna(text),
        operations.astype({"differs": "boolean"}),
    )


def read_record(folder: Path, spec: OutputDtypesSpec) -> OutputDtypesRecord:
    """Read output_dtypes.json.

    Raises:
        RecordError: it is missing or not whole.
    """
    return read_sealed(folder / "output_dtypes.json", OutputDtypesRecord, spec)


def make_tables(records: dict[str, OutputDtypesRecord]) -> Tables:
    """Return the tables of records by the name of their workload."""
    outputs = pd.concat([output_table(name, record) for name, record in records.items()], ignore_index=True)
    passes = pd.concat([pass_table(name, record, outputs) for name, record in records.items()], ignore_index=True)
    rulings = [ruling for record in records.values() for ruling in record.rulings]
    return Tables(outputs, passes, operation_table(rulings))


Place = tuple[str, str, bool, int]
"""Which output: module, kind, whether it is a function's, and which call."""


def place_of(output: Output) -> Place:
    return (output.module or MODEL, output.kind, output.function, output.call)


def label(dtypes: Sequence[str]) -> str:
    """Return the dtypes of an output's tensors as one text."""
    return ", ".join(dtypes) or NO_TENSOR


def forward_order(passes: Iterable[Pass]) -> list[Place]:
    """Return every place once, in the order of the passes; what only a later pass has stands where that has it."""
    places: list[Place] = []
    for each in passes:
        at = 0
        for place in map(place_of, each.outputs):
            if at == len(places) or places[at] != place:
                if place in places:
                    at = places.index(place)
                else:
                    places.insert(at, place)
            at += 1
    return places


def output_table(workload: str, record: OutputDtypesRecord) -> pd.DataFrame:
    """Return one row an output, a device and a precision, in forward order.

    order: from 0, the same for all passes. dtype: of its tensors. between: it is FP32, and outputs before and after it
    are 16-bit. differs: on the other device, in the same precision, it has another dtype or is not there; null where
    that device's pass is not to be had.
    """
    order = {place: number for number, place in enumerate(forward_order(record.passes))}
    dtypes = {
        (each.device, each.precision): {place_of(output): label(output.dtypes) for output in each.outputs}
        for each in record.passes
        if each.how != "unavailable"
    }
    rows: list[dict[str, Any]] = []
    for each in record.passes:
        other = dtypes.get(("cuda" if each.device == "cpu" else "cpu", each.precision))
        own = [label(output.dtypes) for output in each.outputs]
        half = [index for index, dtype in enumerate(own) if dtype in HALF]
        for index, output in enumerate(each.outputs):
            place = place_of(output)
            module, kind, function, call = place
            rows.append(
                {
                    "workload": workload,
                    "order": order[place],
                    "module": module,
                    "kind": kind,
                    "function": function,
                    "call": call,
                    "device": each.device,
                    "how": each.how,
                    "precision": each.precision,
                    "dtype": own[index],
                    "between": own[index] == "float32" and bool(half) and half[0] < index < half[-1],
                    "differs": None if other is None else other.get(place) != own[index],
                }
            )
    columns = ["workload", "order", "module", "kind", "function", "call", "device", "how", "precision", "dtype"]
    return pd.DataFrame(rows, columns=[*columns, "between", "differs"]).astype({"differs": "boolean"})


def pass_table(workload: str, record: OutputDtypesRecord, outputs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a device and a precision: how many outputs of which kind, and the dtypes of the gradients.

    half, fp32, other: outputs that are 16-bit, FP32, and neither. differs: null where the other device's pass is not
    to be had. gradients: parameters by dtype, `none` for those without one. never_called: names, separated by spaces.
    """
    rows: list[dict[str, Any]] = []
    for each in record.passes:
        own = outputs[(outputs["workload"] == workload) & (outputs["device"] == each.device)]
        own = own[own["precision"] == each.precision]
        half, fp32 = int(own["dtype"].isin(HALF).sum()), int((own["dtype"] == "float32").sum())
        rows.append(
            {
                "workload": workload,
                "device": each.device,
                "precision": each.precision,
                "how": each.how,
                "outputs": len(own),
                "half": half,
                "fp32": fp32,
                "other": len(own) - half - fp32,
                "between": int(own["between"].sum()),
                "differs": None if own["differs"].isna().any() or own.empty else int(own["differs"].sum()),
                "gradients": ", ".join(f"{dtype} {count}" for dtype, count in sorted(each.gradients.items())),
                "never_called": " ".join(each.never_called),
                "why": each.why,
            }
        )
    return pd.DataFrame(rows).astype({"differs": "Int64"})


def operation_table(rulings: Sequence[Ruling]) -> pd.DataFrame:
    """Return one row an operation and a 16-bit precision: what each device makes of operands in that precision.

    Records of several workloads hold the same rulings, for they were made on the same machine.
    """
    found = {(each.operation, each.precision, each.device): each for each in rulings}
    rows: list[dict[str, Any]] = []
    for operation, precision in dict.fromkeys((each.operation, each.precision) for each in rulings):
        cpu, cuda = (found.get((operation, precision, device)) for device in ("cpu", "cuda"))
        dtypes = [None if each is None else each.dtype or NO_KERNEL for each in (cpu, cuda)]
        rows.append(
            {
                "operation": operation,
                "precision": precision,
                "cpu": dtypes[0],
                "cuda": dtypes[1],
                "cuda_how": None if cuda is None else cuda.how,
                "differs": dtypes[0] != dtypes[1] if None not in dtypes else None,
            }
        )
    columns = ["operation", "precision", "cpu", "cuda", "cuda_how", "differs"]
    return pd.DataFrame(rows, columns=columns).astype({"differs": "boolean"})


def describe_output_dtypes(name: str, record: OutputDtypesRecord) -> str:
    """Return a record as tables for a terminal."""
    outputs, passes, operations = make_tables({name: record})
    lines = [f"{name}: dtype of every output, in forward order"]
    if len(outputs):
        column = outputs["precision"].str.upper() + " " + outputs["device"].str.upper()
        wide = outputs.assign(column=column, dtype=outputs["dtype"].map(written)).pivot_table(
            index=["order", "module", "kind", "call"], columns="column", values="dtype", aggfunc="first", sort=False
        )
        wide.columns.name = None
        lines.append(
            wide.sort_index(level="order").reset_index().drop(columns="order").to_string(index=False, na_rep="--")
        )
    lines.append(passes.drop(columns="workload").to_string(index=False, na_rep="--"))
    if len(operations):
        columns = {f"{precision.upper()} {device.upper()}": (precision, device) for precision, device in CELLS}
        rows = [
            [operation, *(dtype_of(own, *cell) or "--" for cell in columns.values())]
            for operation, own in operations.groupby("operation", sort=False)
        ]
        table = pd.DataFrame(rows, columns=["operation", *columns])
        lines.append("Single operations on 16-bit operands:\n" + table.to_string(index=False))
    return "\n\n".join(lines)


def written(dtype: str) -> str:
    """Return the dtypes of an output as they are written."""
    return ", ".join(WRITTEN.get(part, part) for part in dtype.split(", "))


def heads(columns: Sequence[Column]) -> list[Column]:
    """Return these columns, and one for each 16-bit precision and device."""
    return [*columns, *(Column(precision.upper(), device.upper(), RAGGED % 2.2) for precision, device in CELLS)]


def outputs_tex(table: pd.DataFrame) -> str:
    """Return the table of outputs by kind of module or function, kinds in forward order."""

    def cells(kind: str, own: pd.DataFrame) -> list[str]:
        found = [
            own.loc[(own["precision"] == precision) & (own["device"] == device), "dtype"] for precision, device in CELLS
        ]
        return [breakable(kind), number(int(own["order"].nunique())), *(counts(dtypes) for dtypes in found)]

    groups = [
        (
            breakable(str(workload)),
            [cells(str(kind), own) for kind, own in rows.sort_values("order").groupby("kind", sort=False)],
        )
        for workload, rows in table.groupby("workload", sort=False)
    ]
    caption = (
        "Dtypes of the outputs of a training step's forward pass by kind of module or function, in forward order, under the "
        "autocast of each precision and device. In brackets, how many outputs have a dtype where not all of a kind have the "
        f"same. {MISSING}: there is no such output."
    )
    columns = heads([Column("Module or function", "", RAGGED % 4.8), Column("Outputs", "", "r")])
    return longtable(columns, groups, caption=caption, label="tab:output_dtypes")


def counts(dtypes: pd.Series) -> str:
    """Return the dtypes of several outputs as LaTeX, a line each with how many have it where they are not the same."""
    found = Counter(map(written, dtypes))
    if len(found) < 2:
        return breakable(next(iter(found), "")) or MISSING
    return r",\newline ".join(f"{breakable(dtype)} ({count})" for dtype, count in found.most_common())


def operations_tex(table: pd.DataFrame) -> str:
    """Return the table of single operations, those on which the devices differ first."""
    groups = []
    differ = set(table.loc[table["differs"].fillna(False).astype(bool), "operation"])
    for heading, chosen in (("CPU and CUDA differ", True), ("CPU and CUDA agree", False)):
        own = table[table["operation"].isin(differ) == chosen]
        rows = [
            [breakable(str(operation)), *(breakable(dtype_of(each, *cell)) or MISSING for cell in CELLS)]
            for operation, each in own.groupby("operation", sort=False)
        ]
        groups += [(heading, rows)] if rows else []
    caption = (
        "What autocast makes of single operations whose operands are in its 16-bit format already, as after a convolution or "
        "a matrix product: the dtype of the result."
    )
    return longtable(
        heads([Column("Operation", "", RAGGED % 4.8)]), groups, caption=caption, label="tab:autocast_operations"
    )


def dtype_of(rows: pd.DataFrame, precision: str, device: str) -> str:
    """Return what a device makes of an operation in a precision; empty where that is not known."""
    found = rows.loc[rows["precision"] == precision, device].dropna()
    return written(str(found.iloc[0])) if len(found) else ""
