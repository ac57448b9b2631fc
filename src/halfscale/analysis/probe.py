"""From probed gradients to operating windows of the loss scale: tables/probe*.csv and their LaTeX.

The window reaches from the smallest scale at which FP16's gradient is as good as it gets to the largest at which it is
finite. Scales are exponents of two throughout, so that a window's width is in bits.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, read_runs, write_csv
from halfscale.analysis.latex import Column, breakable, longtable, number, percent
from halfscale.analysis.predicted_flushed import flushed_table
from halfscale.analysis.predicted_skips import prediction_table
from halfscale.study.arm import Arm
from halfscale.study.probe import ProbeSpec
from halfscale.study.probings import read_probe
from halfscale.study.whole import write_text

AS_GOOD = 1.1
"""Times the least error of all finite scales: what is below is as good as it gets."""

DEFAULT = 16
"""Exponent of GradScaler's default initial scale, 2^16."""


class Window(NamedTuple):
    """The operating window of a gradient, as exponents; None where there is none."""

    plateau: float | None
    """Least relative error over the finite scales."""
    low: int | None
    """Smallest scale whose error is below AS_GOOD times the plateau."""
    high: int | None
    """Largest scale at which no element overflows."""


def write_probe_tables(folder: Path) -> None:
    """Write tables/{probe,probe_scales,probe_layers,predicted_skips,predicted_flushed}.csv and tables/probe.tex.

    Raises:
        RecordError: the plan or a probe is missing or not whole.
        OSError: tables/runs.csv or tables/samples.csv is missing.
    """
    plan = read_plan(folder)
    specs = plan.probe
    probes = {name: read_probe(folder / "probe" / name, spec)[1] for name, spec in specs.items()}
    windows = pd.concat([window_table(name, gradients) for name, gradients in probes.items()], ignore_index=True)
    scales = pd.concat([scale_table(name, gradients) for name, gradients in probes.items()], ignore_index=True)
    layers = pd.concat([layer_table(name, gradients) for name, gradients in probes.items()], ignore_index=True)
    write_csv(folder / "tables" / "probe.csv", windows)
    write_csv(folder / "tables" / "probe_scales.csv", scales)
    write_csv(folder / "tables" / "probe_layers.csv", layers)
    runs, samples = read_runs(folder), read_csv(folder / "tables" / "samples.csv")
    # With gradients accumulated a run samples the sum over a step's micro-batches, and one of them was probed: their
    # zeros are not the sum's.
    seeds = {name: spec.run.seed for name, spec in specs.items() if spec.run.accumulate == 1}
    alike = [arm for arm in plan.arms if computed_as_probed(arm)]
    same_weights = of_arms(runs, [arm for arm in alike if arm.perturb == "none"])
    write_csv(folder / "tables" / "predicted_skips.csv", prediction_table(windows, of_arms(runs, alike)))
    write_csv(folder / "tables" / "predicted_flushed.csv", flushed_table(scales, same_weights, samples, seeds))
    write_text(folder / "tables" / "probe.tex", probe_tex(windows))


def read_probe_tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Read a study's tables/probe.csv, tables/predicted_skips.csv and tables/predicted_flushed.csv."""
    probe, skips, flushed = (
        read_csv(folder / "tables" / f"{name}.csv") for name in ("probe", "predicted_skips", "predicted_flushed")
    )
    return probe, skips, flushed


def computed_as_probed(arm: Arm) -> bool:
    """Return whether an arm's gradients are computed as those that are probed.

    Not so with FP32 islands or scales of single layers, whose gradients lie elsewhere, nor with faults that are injected.
    """
    return not (arm.fp32_modules or arm.layer_scales or arm.inject)


def of_arms(runs: pd.DataFrame, arms: Iterable[Arm]) -> pd.DataFrame:
    """Return the rows of these arms."""
    return runs[runs["arm"].isin([arm.name for arm in arms])]


def window_of(curve: pd.DataFrame) -> Window:
    """Return the window of one gradient from its FP16 rows, one a scale."""
    finite = curve[~curve["overflow"] & curve["error"].notna()]
    if finite.empty:
        return Window(None, None, None)
    plateau = float(finite["error"].min())
    good = finite.loc[finite["error"] <= AS_GOOD * plateau, "exponent"]
    return Window(plateau, int(good.min()), int(finite["exponent"].max()))


def crossover(curve: pd.DataFrame, bf16_error: float | None) -> int | None:
    """Return the smallest scale from which on FP16 is no worse than BF16; None where BF16 is not known or never worse."""
    finite = curve[~curve["overflow"] & curve["error"].notna()].sort_values("exponent")
    if bf16_error is None or finite.empty or finite["error"].iloc[-1] > bf16_error:
        return None
    worse = finite.loc[finite["error"] > bf16_error, "exponent"]
    return int(
        finite["exponent"].min() if worse.empty else finite.loc[finite["exponent"] > worse.max(), "exponent"].min()
    )


def window_table(workload: str, gradients: pd.DataFrame) -> pd.DataFrame:
    """Return one row a step: the window of the whole model, and that in which every parameter's own window lies.

    Scales are exponents. layers_low and layers_high: the largest lower and the smallest upper end over the parameters;
    where the former is above the latter, no single scale serves all of them. bits: width of a window.
    """
    rows: list[dict[str, Any]] = []
    for step, own in gradients.groupby("step", sort=True):
        whole = own[own["parameter"] == ""]
        curve = whole[whole["precision"] == "fp16"]
        window = window_of(curve)
        bf16 = whole.loc[whole["precision"] == "bf16", "error"]
        bf16_error = float(bf16.iloc[0]) if len(bf16) and pd.notna(bf16.iloc[0]) else None
        layers = layer_windows(own)
        low, high = layers["low"].max(), layers["high"].min()
        elements = int(whole["elements"].iloc[0])
        rows.append(
            {
                "workload": workload,
                "step": step,
                "elements": elements,
                "norm": whole["norm"].iloc[0],
                "largest": whole["largest"].iloc[0],
                "true_zero": whole["true_zero"].iloc[0] / elements,
                "plateau": window.plateau,
                "bf16_error": bf16_error,
                "low": window.low,
                "high": window.high,
                "bits": None if window.low is None or window.high is None else window.high - window.low,
                "default_inside": window.low is not None
                and window.high is not None
                and window.low <= DEFAULT <= window.high,
                "crossover": crossover(curve, bf16_error),
                "layers_low": low,
                "layers_high": high,
                "layers_bits": high - low,
                "flushed_unscaled": flushed_at(curve, 0),
                "flushed_default": flushed_at(curve, DEFAULT),
            }
        )
    whole_numbers = dict.fromkeys(
        ("low", "high", "bits", "crossover", "layers_low", "layers_high", "layers_bits"), "Int64"
    )
    return pd.DataFrame(rows).astype(whole_numbers)


def flushed_at(curve: pd.DataFrame, exponent: int) -> float | None:
    """Return the share of elements that underflow at a scale; None where it was not tried."""
    rows = curve[curve["exponent"] == exponent]
    return None if rows.empty else float(rows["flushed"].iloc[0] / rows["elements"].iloc[0])


def layer_windows(gradients: pd.DataFrame) -> pd.DataFrame:
    """Return the window of each parameter whose FP32 gradient is not zero."""
    own = gradients[(gradients["parameter"] != "") & (gradients["precision"] == "fp16") & (gradients["norm"] > 0)]
    rows = [
        {
            "parameter": parameter,
            **window_of(curve)._asdict(),
            "norm": curve["norm"].iloc[0],
            "largest": curve["largest"].iloc[0],
        }
        for parameter, curve in own.groupby("parameter", sort=False)
    ]
    columns = ["parameter", "plateau", "low", "high", "norm", "largest"]
    return pd.DataFrame(rows, columns=columns).astype({"low": "Int64", "high": "Int64"})


def layer_table(workload: str, gradients: pd.DataFrame) -> pd.DataFrame:
    """Return one row a step and parameter: its window, and the size of its FP32 gradient."""
    parts = [layer_windows(own).assign(step=step) for step, own in gradients.groupby("step", sort=True)]
    table = pd.concat(parts, ignore_index=True).assign(workload=workload)
    return table[["workload", "step", "parameter", "low", "high", "plateau", "norm", "largest"]]


def scale_table(workload: str, gradients: pd.DataFrame) -> pd.DataFrame:
    """Return one row a step, precision and scale: error, cosine, and shares of elements, of the model as a whole."""
    whole = gradients[gradients["parameter"] == ""]
    shares = {name: whole[name] / whole["elements"] for name in ("true_zero", "flushed", "subnormal")}
    columns = ["workload", "step", "precision", "exponent", "overflow", "error", "cosine", *shares]
    return whole.assign(workload=workload, **shares).sort_values(["step", "precision", "exponent"])[columns]


def describe_probe(folder: Path, spec: ProbeSpec) -> str:
    """Return a finished probe as a table for a terminal; scales are exponents of two.

    Raises:
        RecordError: it is missing or not whole.
    """
    table = window_table(spec.run.model, read_probe(folder, spec)[1])
    shown = [
        "step",
        "plateau",
        "bf16_error",
        "low",
        "high",
        "bits",
        "default_inside",
        "crossover",
        "layers_low",
        "layers_high",
    ]
    return table[shown].to_string(index=False, na_rep="--", float_format="{:.3g}".format)


def probe_tex(table: pd.DataFrame) -> str:
    """Return the table of windows."""
    columns = [
        Column("Step", "", "r"),
        Column("Plateau", "(error)", "r"),
        Column("BF16", "(error)", "r"),
        Column("Window", r"($\log_2 S$)", "r"),
        Column("Width", "(bits)", "r"),
        Column("Crossover", r"($\log_2 S$)", "r"),
        Column("Every layer", r"($\log_2 S$)", "r"),
        Column("Width", "(bits)", "r"),
        Column("Flushed", r"at $S=1$ (\%)", "r"),
    ]

    def cells(row: Any) -> list[str]:
        return [
            number(int(row.step)),
            number(row.plateau),
            number(None if pd.isna(row.bf16_error) else row.bf16_error),
            ends(row.low, row.high),
            whole(row.bits),
            whole(row.crossover),
            ends(row.layers_low, row.layers_high),
            whole(row.layers_bits),
            percent(None if pd.isna(row.flushed_unscaled) else row.flushed_unscaled),
        ]

    groups = [
        (breakable(str(workload)), [cells(row) for row in rows.itertuples()])
        for workload, rows in table.groupby("workload", sort=False)
    ]
    caption = (
        "Operating window of the loss scale, at weights that have had so many steps: from the smallest scale at which "
        "the error of FP16's gradient is within a tenth of its least, the plateau, to the largest at which it is finite. "
        "Crossover: the scale from which on FP16 is no worse than BF16. Every layer: where the windows of all parameters "
        "overlap; a negative width says that no single scale serves them all. Flushed: elements that are zero in FP16 "
        "without scaling and not in FP32."
    )
    return longtable(columns, groups, caption=caption, label="tab:probe")


def whole(value: Any) -> str:
    return number(None if pd.isna(value) else int(value))


def ends(low: Any, high: Any) -> str:
    """Return both ends of a window."""
    return "--" if pd.isna(low) or pd.isna(high) else f"${int(low)}$ to ${int(high)}$"
