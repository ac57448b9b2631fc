"""From predicted times to tables/roofline.csv and its LaTeX."""

from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, write_csv
from halfscale.analysis.latex import Column, breakable, escape, longtable, number, percent
from halfscale.study.predictions import RooflineRecord
from halfscale.study.sealed import read_sealed
from halfscale.study.whole import write_text


def write_roofline_tables(folder: Path) -> None:
    """Write tables/roofline.csv and tables/roofline.tex of a study that predicts times.

    Raises:
        RecordError: the plan or a record is missing or not whole.
    """
    specs = read_plan(folder).roofline
    records = [
        read_sealed(folder / "roofline" / case / "roofline.json", RooflineRecord, spec) for case, spec in specs.items()
    ]
    table = pd.concat([roofline_table(record) for record in records], ignore_index=True)
    write_csv(folder / "tables" / "roofline.csv", table)
    write_text(folder / "tables" / "roofline.tex", roofline_tex(table))


def read_roofline_table(folder: Path) -> pd.DataFrame:
    """Read a study's tables/roofline.csv."""
    return read_csv(folder / "tables" / "roofline.csv")


def roofline_table(record: RooflineRecord) -> pd.DataFrame:
    """Return one row a device and precision: milliseconds of a step at least, speed-up over fp32, shares of the time."""
    case = record.spec.case
    rows = [
        {
            "case": case.name,
            "batch_size": case.batch_size,
            "device": roof.device,
            "precision": roof.precision,
            "flops": record.flops,
            "bytes": record.bytes[roof.precision],
            "step_ms": 1e3 * roof.seconds,
            **roof.model_dump(include={"speedup", "matrix_share", "compute_bound", "amdahl"}),
        }
        for roof in record.roofs
    ]
    return pd.DataFrame(rows)


def describe_roofline(record: RooflineRecord) -> str:
    """Return a record as a table for a terminal."""
    case = record.spec.case
    table = roofline_table(record)[
        ["device", "precision", "step_ms", "speedup", "amdahl", "matrix_share", "compute_bound"]
    ]
    return (
        f"{case.name}: batch size {case.batch_size}, {record.parameters:,} parameters, {record.flops / 1e9:,.1f} GFLOP a "
        f"step; at least\n\n{table.to_string(index=False, float_format='{:.3g}'.format)}"
    )


def roofline_tex(table: pd.DataFrame) -> str:
    """Return the table of every prediction."""
    columns = [
        Column("Device", "", "l"),
        Column("Precision", "", "l"),
        Column("Step", "(ms)", "r"),
        Column("Speed-up", "", "r"),
        Column("Amdahl", "", "r"),
        Column("Products", r"(\%)", "r"),
        Column("Compute-bound", r"(\%)", "r"),
    ]

    def cells(row: Any) -> list[str]:
        return [
            escape(row.device),
            row.precision.upper(),
            number(row.step_ms),
            number(row.speedup),
            number(row.amdahl),
            percent(row.matrix_share),
            percent(row.compute_bound),
        ]

    groups = [
        (f"{breakable(str(case))}, batch size {batch}", [cells(row) for row in rows.itertuples()])
        for (case, batch), rows in table.groupby(["case", "batch_size"], sort=False)
    ]
    caption = (
        "Least time of a training step by data sheet: for each operation the larger of FLOP over peak and bytes over "
        "bandwidth. A bound and not a forecast. Speed-up: over FP32. Amdahl: its bound from FP32's times alone. "
        "Products: share of the time in convolutions, matrix products and attention, which tensor cores compute."
    )
    return longtable(columns, groups, caption=caption, label="tab:roofline")
