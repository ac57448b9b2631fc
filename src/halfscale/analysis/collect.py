"""Gather a finished study: one row a run in tables/runs.csv, every step in traces.parquet, where it ran beside them."""

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from halfscale.analysis.columns import COLUMNS
from halfscale.analysis.environments import Counting, write_environments
from halfscale.analysis.instability import Instability, first_instability
from halfscale.analysis.skips import CAUSES, skip_causes
from halfscale.study.arm import DynamicLossScaling
from halfscale.study.records import TRACE, RecordError, Summary, read_summary, read_trace, sha256
from halfscale.study.runs import Member, Roster, member_specs
from halfscale.study.whole import whole_file

NAME = pa.dictionary(pa.int32(), pa.string())
TRACES = pa.schema(
    [
        pa.field("workload", NAME, nullable=False),
        pa.field("arm", NAME, nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        *TRACE,
        pa.field("skip_cause", NAME),
    ]
)
"""Columns of traces.parquet: those of a trace, whose it is, and why a step was skipped."""

ROW_GROUP = 100_000
"""Rows of traces.parquet that are written at once: with a row group a run, its index would grow with the runs."""

NAMES = [
    "workload",
    "arm",
    "run_id",
    "reference",
    "case",
    "pitfall",
    "bad_where",
    "said",
    "module",
    "never_called",
    "instability",
]
"""Columns of text, which stays text whatever it looks like."""

WHOLE_NUMBERS = ["growth_interval", "first_bad_step", "first_instability", "gap_n", "later_steps", "later_finite"]
"""Columns of whole numbers that may be empty."""

COUNTS = ["steps", "updates", "skipped", "overflows", "growths", "backoffs"]


def collect(folder: Path) -> None:
    """Check every run of a study and write its tables/runs.csv, traces.parquet and environments.json.

    They keep the order of the config, and hold no times: they are the same bytes on every repeat.

    Args:
        folder: the study's results, with plan.json and runs/<run_id>/{trace.parquet,summary.json}.

    Raises:
        RecordError: a record is missing, not whole, of another spec, or does not agree with its trace;
            or runs were computed on different devices, backends or data, and must not be compared.
    """
    plan = read_plan(folder)
    rates = lr_factors(plan)
    first: dict[str, tuple[str, str]] = {}
    environments = Counting()
    with whole_file(folder / "tables" / "runs.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")

        def tables() -> Iterator[pa.Table]:
            for index, (member, summary) in enumerate(read_summaries(folder, plan)):
                refuse_mixture(first, member, summary)
                environments.add(summary)
                trace = read_checked_trace(folder, summary)
                causes = skip_causes(trace)
                unstable = first_instability(trace, causes, summary.first_bad_step, summary.spec.steps)
                row = run_row(member, summary, causes, unstable, rates)
                writer.writerows([row, row.values()] if index == 0 else [row.values()])
                yield trace_table(member, trace, causes)

        write_traces(folder / "traces.parquet", tables())
    write_environments(environments.result(), folder)


def read_plan(folder: Path) -> Roster:
    """Read a study's plan.json.

    Raises:
        RecordError: it is missing or no plan.
    """
    path = folder / "plan.json"
    try:
        return Roster.model_validate_json(path.read_bytes()).in_config_order()
    except FileNotFoundError:
        raise RecordError(
            f"{path}: is not there; allowed: the folder of a study that has run, as `make study` runs one"
        ) from None
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            raise RecordError(f"{path}: is not whole; delete it to have it made again") from None
        key = ".".join(map(str, first["loc"]))
        raise RecordError(
            f"{path}: is no plan: {f'{key}: ' if key else ''}{first['msg']}; delete it to have it made again"
        ) from None


def read_summaries(folder: Path, plan: Roster) -> Iterator[tuple[Member, Summary]]:
    """Yield each member of a plan and the summary of its run, one at a time, so that memory does not grow with them.

    Raises:
        RecordError: a summary is missing, not whole, or of another spec; or plan.json is not of this version.
    """
    for member, spec in member_specs(plan):
        if spec.run_id != member.run_id:
            raise RecordError(f"{folder / 'plan.json'}: {member.run_id} is now {spec.run_id}; plan the study anew")
        yield member, read_summary(folder / "runs" / member.run_id / "summary.json", spec)


def lr_factors(plan: Roster) -> dict[str, float]:
    """Return the lr_factor of each arm by name; nothing where all arms train at the workload's own learning rate."""
    factors = {arm.name: arm.lr_factor for arm in plan.arms}
    return {} if set(factors.values()) == {1.0} else factors


def read_runs(folder: Path) -> pd.DataFrame:
    """Read a study's tables/runs.csv; what is empty in it is null.

    Raises:
        OSError: it is missing.
        RecordError: it is not whole, or has other rows than the plan has runs; or the plan is missing or not whole.
    """
    path = folder / "tables" / "runs.csv"
    runs = read_csv(path)
    planned = [(member.workload, member.arm, member.seed) for member in read_plan(folder).members]
    found = list(runs[["workload", "arm", "seed"]].itertuples(index=False, name=None))
    if sorted(found) != sorted(planned):
        raise RecordError(f"{path}: has not the runs of plan.json, each once; delete it to have it made again")
    return runs


def refuse_mixture(first: dict[str, tuple[str, str]], member: Member, summary: Summary) -> None:
    """Raise RecordError where a run differs from the first one in what must be the same for them to be compared.

    Args:
        first: what must be the same, and the id and the value of the first run that has it; a new one is added.
        member: the run's place in the study.
        summary: what the run left.
    """
    effective = summary.effective
    values = {f"workload {member.workload!r}: data": effective.data, "device": effective.device}
    if effective.precision in ("fp16", "bf16"):
        values[f"{effective.precision.upper()} backend"] = effective.backend
    for what, value in values.items():
        first_id, first_value = first.setdefault(what, (summary.run_id, value))
        if value != first_value:
            raise RecordError(
                f"runs with a different {what} are never pooled: {first_id} has {first_value}, {summary.run_id} has "
                f"{value}; delete one of them to have it run again"
            )


def read_checked_trace(folder: Path, summary: Summary) -> pd.DataFrame:
    """Return a run's trace.

    Raises:
        RecordError: it is not whole, or not the one that its summary was made from.
    """
    path = folder / "runs" / summary.run_id / "trace.parquet"
    trace = read_trace(path, summary.spec)
    if sha256(path) != summary.trace_sha256:
        raise RecordError(f"{path}: is not the trace that its summary was made from; delete both to have them made")
    for name, counted in count_events(trace).items():
        told = getattr(summary, name)
        if told != counted:
            raise RecordError(f"{path}: has {counted} {name}, but its summary says {told}")
    return trace


def count_events(trace: pd.DataFrame) -> dict[str, int]:
    """Return what a summary counts, from the trace itself."""
    events = (int(np.count_nonzero(trace[name].to_numpy())) for name in ("skipped", "overflow", "growth", "backoff"))
    counts = [len(trace), int(trace["updates"].iloc[-1]), *events]
    return dict(zip(COUNTS, counts, strict=True))


def run_row(
    member: Member, summary: Summary, causes: pd.Series, unstable: Instability | None, rates: Mapping[str, float]
) -> dict[str, Any]:
    """Return a run's row of runs.csv. Scale columns are empty where nothing was scaled.

    Args:
        member: the run's place in the study.
        summary: what the run left.
        causes: of its skipped steps, as skip_causes gives them.
        unstable: its first instability.
        rates: as lr_factors gives them.
    """
    scaling = summary.spec.loss_scaling
    scaled = summary.init_scale is not None
    dynamic = scaling if scaled and isinstance(scaling, DynamicLossScaling) else None
    counted = np.bincount(causes.cat.codes + 1, minlength=1 + len(CAUSES))[1:]  # -1 is where no step was skipped
    return {
        **member.model_dump(),
        **({"lr_factor": rates[member.arm]} if rates else {}),
        "status": summary.status,
        "precision": summary.effective.precision,
        "fell_back": summary.effective.fell_back,
        "device": summary.effective.device,
        "backend": summary.effective.backend,
        "loss_scaling": scaling.kind if scaled else "none",
        "init_scale": summary.init_scale,
        "growth_factor": dynamic and dynamic.growth_factor,
        "backoff_factor": dynamic and dynamic.backoff_factor,
        "growth_interval": dynamic and dynamic.growth_interval,
        "steps": summary.steps,
        "updates": summary.updates,
        "skipped": summary.skipped,
        **{f"skipped_{cause}": int(count) for cause, count in zip(CAUSES, counted, strict=True)},
        "overflows": summary.overflows,
        "growths": summary.growths,
        "backoffs": summary.backoffs,
        "final_scale": summary.final_scale,
        "initial_loss": summary.initial_loss,
        "final_loss": summary.final_loss,
        "final_excess": summary.final_excess,
        "floor": summary.floor,
        "eval_loss": summary.eval_loss,
        "eval_excess": summary.eval_excess,
        "eval_accuracy": summary.eval_accuracy,
        "first_bad_step": summary.first_bad_step,
        "bad_where": summary.bad_where,
        "first_instability": unstable and unstable.step,
        "instability": unstable and unstable.cause,
    }


def trace_table(member: Member, trace: pd.DataFrame, causes: pd.Series) -> pa.Table:
    """Return a trace as rows of traces.parquet."""
    rows = len(trace)
    codes = causes.cat.codes.to_numpy().astype(np.int32)  # -1 where no step was skipped
    columns: dict[str, Any] = {
        "workload": pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [member.workload]),
        "arm": pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [member.arm]),
        "seed": pa.array(np.full(rows, member.seed)),
        "skip_cause": pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), CAUSES),
    }
    for field in TRACE:
        # A NaN is missing in a column that may be empty, and a value (a diverged loss) in one that may not.
        columns[field.name] = pa.array(trace[field.name].to_numpy(), field.type, from_pandas=field.nullable)
    return pa.table([columns[name] for name in TRACES.names], schema=TRACES)


def write_traces(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write traces some at a time, so that memory does not grow with the number of runs."""
    with whole_file(path) as temporary, pq.ParquetWriter(temporary, TRACES) as writer:
        waiting: list[pa.Table] = []
        for table in tables:
            waiting.append(table)
            if sum(map(len, waiting)) >= ROW_GROUP:
                writer.write_table(pa.concat_tables(waiting).unify_dictionaries())
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting).unify_dictionaries())


@contextmanager
def reading_traces(path: Path) -> Iterator[None]:
    """Tell in one line what goes wrong while traces.parquet is read.

    Raises:
        OSError: it is missing.
        RecordError: it is cut short, or is not what this version writes.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise RecordError(f"{path}: is not whole: {reason}; delete it to have it made again") from None


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table: floats in the fewest digits that read back as the same float, null as nothing."""
    whole = [name for name in WHOLE_NUMBERS if name in table]
    with whole_file(path) as temporary:
        table.astype(dict.fromkeys(whole, "Int64")).to_csv(temporary, index=False, lineterminator="\n")


def read_csv(path: Path) -> pd.DataFrame:
    """Read what write_csv wrote. Names stay text: an arm may be called NA or 010.

    Raises:
        OSError: it is missing.
        RecordError: it is no table, is cut short, or lacks a column that a study's table of its name has.
    """
    types = dict.fromkeys(NAMES, "str") | dict.fromkeys(WHOLE_NUMBERS, "Int64")
    try:
        text = path.read_text(encoding="utf-8")
        header = pd.read_csv(io.StringIO(text), nrows=0).columns
        if not text.endswith("\n"):
            raise ValueError("its last line has no end")
        refuse_lacking(path, header)
        return pd.read_csv(
            io.StringIO(text),
            dtype={name: kind for name, kind in types.items() if name in header},
            keep_default_na=False,
            na_values=[""],
        )
    except (ValueError, TypeError) as error:  # whatever pandas finds, and what is no UTF-8
        reason = " ".join(str(error).split())
        raise RecordError(f"{path}: is no whole table: {reason}; delete it to have it made again") from None


def refuse_lacking(path: Path, header: Collection[str]) -> None:
    """Raise RecordError where a study's table lacks one of its COLUMNS."""
    columns = COLUMNS[path.stem].split() if path.parent.name == "tables" and path.stem in COLUMNS else []
    for name in columns:
        if name not in header:
            raise RecordError(f"{path}: lacks the column {name!r}; delete it to have it made again")
