"""Output dtypes that nobody measured: a net whose LayerNorm a CPU keeps in 16 bits and CUDA does not."""

from pathlib import Path
from typing import Any

import made_up_timings

from halfscale.analysis.collect import write_csv
from halfscale.analysis.output_dtypes import FILES, make_tables
from halfscale.study.output_dtypes import OutputDtypesSpec
from halfscale.study.passes import Output, OutputDtypesRecord, Pass, Ruling

HALF = {"bf16": "bfloat16", "fp16": "float16"}
PRECISIONS: tuple[Any, ...] = ("fp32", "bf16", "fp16")
DEVICES: tuple[Any, ...] = ("cpu", "cuda")


def output(module: str, kind: str, *dtypes: str, function: bool = False, call: int = 1) -> Output:
    """Return one output of a module, or of a function called in it."""
    return Output(module=module, kind=kind, function=function, call=call, dtypes=list(dtypes))


def made_up_pass(device: Any, precision: Any, **changes: Any) -> Pass:
    """Return five outputs and a loss: on a CPU four of them are 16-bit, on CUDA the norm in their midst is FP32."""
    half = HALF.get(precision, "float32")
    outputs = [
        output("first", "Linear", half),
        output("norm", "LayerNorm", half if device == "cpu" else "float32"),
        output("shared", "Linear", half),
        output("shared", "Linear", half, call=2),
        output("", "argmax", "int64", function=True),
        output("", "cross_entropy", "float32", function=True),
    ]
    how = "measured" if device == "cpu" else "predicted"
    values = {"device": device, "precision": precision, "how": how, "why": "", "outputs": outputs}
    return Pass(**{**values, "never_called": [], "gradients": {"float32": 6}, **changes})


def unavailable(precision: Any) -> Pass:
    """Return a pass of CUDA that could not be predicted."""
    why = "DataDependentOutputException: aten._local_scalar_dense.default"
    return made_up_pass("cuda", precision, how="unavailable", why=why, outputs=[], gradients={})


def make_record(passes: list[Pass] | None = None) -> OutputDtypesRecord:
    """Return the record of such a net, or of other passes; LayerNorm is a rule on which the devices differ."""
    spec = OutputDtypesSpec(
        model="net",
        model_args={},
        data="markov",
        data_args={},
        memory_format="contiguous",
        batch_size=2,
        seed=0,
        device="cpu",
        backend="auto",
    )
    rulings = [
        Ruling(operation=operation, device=device, precision=precision, how="predicted", dtype=dtype)
        for device in DEVICES
        for precision in ("bf16", "fp16")
        for operation, dtype in (
            ("linear", HALF[precision]),
            ("layer_norm", HALF[precision] if device == "cpu" else "float32"),
        )
    ]
    return OutputDtypesRecord(
        spec_hash=spec.hash,
        spec=spec,
        passes=passes or [made_up_pass(device, precision) for device in DEVICES for precision in PRECISIONS],
        rulings=rulings,
        environment=made_up_timings.ENVIRONMENT,
        code="c0de",
        seconds=1.0,
    )


def write_tables_of_dtypes(folder: Path, **records: OutputDtypesRecord) -> None:
    """Write the tables of records by the name of their workload; of the made-up one where there is none."""
    for name, table in zip(FILES, make_tables(records or {"net": make_record()}), strict=True):
        write_csv(folder / "tables" / f"{name}.csv", table)
