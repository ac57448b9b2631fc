"""From predicted and measured memory to tables/memory.csv, tables/largest_batch.csv, and their LaTeX."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, write_csv
from halfscale.analysis.latex import Column, breakable, escape, longtable, number, percent
from halfscale.study.predictions import Measurement, MemoryRecord
from halfscale.study.sealed import read_sealed
from halfscale.study.step import KINDS
from halfscale.study.whole import write_text

MIB, GIB = 2**20, 2**30


def write_memory_tables(folder: Path) -> None:
    """Write tables/{memory,largest_batch}.csv and tables/memory.tex of a study that predicts memory.

    Raises:
        RecordError: the plan or a record is missing or not whole.
    """
    specs = read_plan(folder).memory
    records = [
        read_sealed(folder / "memory" / case / "memory.json", MemoryRecord, spec) for case, spec in specs.items()
    ]
    table = pd.concat([memory_table(record) for record in records], ignore_index=True)
    largest = pd.concat([largest_table(record) for record in records], ignore_index=True)
    write_csv(folder / "tables" / "memory.csv", table)
    write_csv(folder / "tables" / "largest_batch.csv", largest)
    write_text(folder / "tables" / "memory.tex", memory_tex(table))


def read_memory_tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read a study's tables/memory.csv and tables/largest_batch.csv."""
    return read_csv(folder / "tables" / "memory.csv"), read_csv(folder / "tables" / "largest_batch.csv")


def memory_table(record: MemoryRecord) -> pd.DataFrame:
    """Return one row a prediction: bytes at the peak by kind, and what was measured, null where nothing was.

    saved: bytes saved for the backward pass. ratio: peak over that of fp32, all else the same; null where fp32 is not
    predicted. measured: bytes. residual: measured over predicted, less 1.
    """
    base = {
        (each.accounting, each.batch_size): each.peak.total for each in record.predictions if each.precision == "fp32"
    }
    measured = {(each.device, each.precision, each.batch_size): each for each in record.measurements}
    rows: list[dict[str, Any]] = []
    for each in record.predictions:
        reference = base.get((each.accounting, each.batch_size))
        rows.append(
            {
                "case": record.spec.case.name,
                "accounting": each.accounting,
                "precision": each.precision,
                "batch_size": each.batch_size,
                **{kind: getattr(each.peak, kind) for kind in KINDS},
                "peak": each.peak.total,
                "saved": each.saved,
                "ratio": each.peak.total / reference if reference else None,
                **measured_cells(measured.get((each.accounting, each.precision, each.batch_size))),
            }
        )
    counts = dict.fromkeys(("measured", "allocated", "reserved", "retries"), "Int64")
    return pd.DataFrame(rows).astype({**counts, "ratio": float, "residual": float})


def measured_cells(measurement: Measurement | None) -> dict[str, Any]:
    """Return the columns of a measurement; null where there is none."""
    if measurement is None:
        return dict.fromkeys(("measured", "allocated", "reserved", "retries", "residual"))
    return {
        "measured": measurement.peak,
        "allocated": measurement.allocated,
        "reserved": measurement.reserved,
        "retries": measurement.retries,
        "residual": measurement.residual,
    }


def largest_table(record: MemoryRecord) -> pd.DataFrame:
    """Return one row a device and precision: the largest batch whose predicted peak fits, and what was found here."""
    name = record.spec.case.name
    rows = [{"case": name, **each.model_dump(), "how": "predicted"} for each in record.largest]
    rows += [
        {
            "case": name,
            "device": record.environment.device,
            "precision": precision,
            "batch_size": batch,
            "how": "searched",
        }
        for precision, batch in record.searched.items()
    ]
    return pd.DataFrame(rows)


def describe_memory(record: MemoryRecord) -> str:
    """Return a record as tables for a terminal."""
    table = memory_table(record)
    mib = ["peak", *KINDS, "saved", "measured"]
    table[mib] = table[mib].astype(float) / MIB
    shown = ["accounting", "precision", "batch_size", *mib, "residual"]
    largest = largest_table(record).pivot_table(
        index=["device", "how"], columns="precision", values="batch_size", sort=False
    )
    return "\n\n".join(
        [
            f"{record.spec.case.name}: {record.parameters:,} parameters; MiB at the peak of one training step",
            table[shown].to_string(index=False, na_rep="--", float_format="{:.1f}".format),
            "Largest batch that fits:",
            largest.to_string(na_rep="--", float_format="{:.0f}".format),
        ]
    )


def memory_tex(table: pd.DataFrame) -> str:
    """Return the table of every prediction."""
    kinds: Sequence[str] = ("activations", "weight_copies", "gradients", "temporaries")
    columns = [
        Column("Precision", "", "l"),
        Column("Batch", "", "r"),
        Column("Peak", "(MiB)", "r"),
        Column("To FP32", r"(\%)", "r"),
        *(Column(kind.replace("_", " ").capitalize(), "(MiB)", "r") for kind in kinds),
        Column("Measured", "(MiB)", "r"),
        Column("Residual", r"(\%)", "r"),
    ]

    def cells(row: Any) -> list[str]:
        return [
            row.precision.upper(),
            number(int(row.batch_size)),
            number(row.peak / MIB),
            percent(row.ratio),
            *(number(getattr(row, kind) / MIB) for kind in kinds),
            number(None if pd.isna(row.measured) else row.measured / MIB),
            percent(row.residual),
        ]

    groups = [
        (
            f"{breakable(str(case))}, {escape(str(accounting)).upper()} autocast",
            [cells(row) for row in rows.itertuples()],
        )
        for (case, accounting), rows in table.groupby(["case", "accounting"], sort=False)
    ]
    caption = (
        "Memory at the peak of one training step, predicted with nothing allocated, and by kind at that moment; weights, "
        "optimizer state and the batch make up the rest. Measured: what a fresh process took for the same step; "
        "residual: measured over predicted, less one."
    )
    return longtable(columns, groups, caption=caption, label="tab:memory")
