"""From probed gradients to operating windows of the loss scale: tables/probe*.csv and their LaTeX.

Scales are exponents of two throughout, so that a window's width is in bits.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from halfscale.analysis.collect import read_csv, read_plan, read_runs, write_csv
from halfscale.analysis.latex import MISSING, Column, breakable, longtable, number, percent
from halfscale.analysis.predicted_flushed import flushed_table
from halfscale.analysis.predicted_skips import prediction_table
from halfscale.analysis.windows import Window, bf16_error_of, common_window, crossover, layer_windows, window_of
from halfscale.study.arm import Arm
from halfscale.study.probe import ProbeSpec
from halfscale.study.probings import read_probe
from halfscale.study.whole import write_text

DEFAULT = 16
"""Exponent of GradScaler's default initial scale, 2^16."""

AT_MOST, AT_LEAST = r"\leq", r"\geq"
"""Before the end of a window that is the last scale that was tried."""


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
    alike = [arm for arm in plan.arms if computed_as_probed(arm)]
    write_csv(folder / "tables" / "predicted_skips.csv", prediction_table(windows, of_arms(runs, alike)))
    # With gradients accumulated a run samples the sum over a step's micro-batches, and one of them was probed: their
    # zeros are not the sum's.
    seeds = {name: spec.run.seed for name, spec in specs.items() if spec.run.accumulate == 1}
    same_weights = of_arms(runs, [arm for arm in alike if arm.perturb == "none"])
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


def window_table(workload: str, gradients: pd.DataFrame) -> pd.DataFrame:
    """Return one row a step: the window of the whole model, and that in which every parameter's own window lies.

    Scales are exponents. bits: width of a window. layers_low and layers_high: the largest lower and the smallest upper
    end over the parameters; where the former is above the latter, no single scale serves all of them, and so where both
    are null and layers_without is not 0: so many parameters have no window, those apart whose gradient is rounding
    noise, of which there are layers_noise. An end is open that is the lowest or the highest scale that was tried: the
    window may reach further. default_inside: null where that is not known for that reason.
    """
    rows: list[dict[str, Any]] = []
    for step, own in gradients.groupby("step", sort=True):
        whole = own[own["parameter"] == ""]
        curve = whole[whole["precision"] == "fp16"]
        window, common = window_of(curve), common_window(layer_windows(own))
        bf16_error = bf16_error_of(whole)
        crossed = crossover(curve, bf16_error)
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
                "low_open": window.low_open,
                "high_open": window.high_open,
                "bits": width(window.low, window.high),
                "default_inside": is_inside(DEFAULT, window),
                "crossover": crossed,
                "crossover_open": crossed is not None and crossed == int(curve["exponent"].min()),
                "layers_low": common.low,
                "layers_high": common.high,
                "layers_low_open": common.low_open,
                "layers_high_open": common.high_open,
                "layers_bits": width(common.low, common.high),
                "layers_noise": common.noise,
                "layers_without": common.without,
                "flushed_unscaled": flushed_at(curve, 0),
                "flushed_default": flushed_at(curve, DEFAULT),
            }
        )
    whole_numbers = ("low", "high", "bits", "crossover", "layers_low", "layers_high", "layers_bits")
    numbers = ("plateau", "bf16_error", "flushed_unscaled", "flushed_default")
    types = {**dict.fromkeys(whole_numbers, "Int64"), **dict.fromkeys(numbers, "float64"), "default_inside": "boolean"}
    return pd.DataFrame(rows).astype(types)


def width(low: int | None, high: int | None) -> int | None:
    """Return the width of a window, bits; None where there is none."""
    return None if low is None or high is None else high - low


def is_inside(exponent: int, window: Window) -> bool | None:
    """Return whether a scale lies in a window; None where it is beyond an end that is open."""
    if window.low is None or window.high is None:
        return False
    if (exponent > window.high and window.high_open) or (exponent < window.low and window.low_open):
        return None
    return window.low <= exponent <= window.high


def flushed_at(curve: pd.DataFrame, exponent: int) -> float | None:
    """Return the share of elements that underflow at a scale; None where it was not tried."""
    rows = curve[curve["exponent"] == exponent]
    return None if rows.empty else float(rows["flushed"].iloc[0] / rows["elements"].iloc[0])


def layer_table(workload: str, gradients: pd.DataFrame) -> pd.DataFrame:
    """Return one row a step and parameter: its window, as Window has it, and the size of its FP32 gradient.

    noise: whether neither FP16 nor BF16 gives more of it than a gradient of zeros would, as is_noise says.
    """
    parts = [layer_windows(own).assign(step=step) for step, own in gradients.groupby("step", sort=True)]
    table = pd.concat(parts, ignore_index=True).assign(workload=workload)
    window = ["low", "high", "low_open", "high_open", "noise", "plateau", "bf16_error"]
    return table[["workload", "step", "parameter", *window, "norm", "largest"]]


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
    signs = {"low": "<=", "high": ">=", "crossover": "<=", "layers_low": "<=", "layers_high": ">="}
    ends = {
        name: [end(value, sign if is_open else "") for value, is_open in table[[name, f"{name}_open"]].to_numpy()]
        for name, sign in signs.items()
    }
    shown = ["step", "plateau", "bf16_error", "low", "high", "bits", "default_inside", "crossover"]
    layers = ["layers_low", "layers_high", "layers_noise", "layers_without"]
    return table.assign(**ends)[[*shown, *layers]].to_string(index=False, na_rep="--", float_format="{:.3g}".format)


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
        # Where FP32's gradient is no number there is nothing to be said.
        no_window = "none" if row.norm > 0 else MISSING
        no_common = "none" if row.layers_without else MISSING
        either_open, layers_open = row.low_open or row.high_open, row.layers_low_open or row.layers_high_open
        return [
            number(int(row.step)),
            number(row.plateau),
            number(None if pd.isna(row.bf16_error) else row.bf16_error),
            no_window if pd.isna(row.low) else ends(row.low, row.high, row.low_open, row.high_open),
            whole(row.bits, AT_LEAST if either_open else ""),
            whole(row.crossover, AT_MOST if row.crossover_open else ""),
            no_common
            if pd.isna(row.layers_low)
            else ends(row.layers_low, row.layers_high, row.layers_low_open, row.layers_high_open),
            whole(row.layers_bits, AT_LEAST if layers_open else ""),
            percent(None if pd.isna(row.flushed_unscaled) else row.flushed_unscaled),
        ]

    groups = [
        (breakable(str(workload)), [cells(row) for row in rows.itertuples()])
        for workload, rows in table.groupby("workload", sort=False)
    ]
    caption = (
        "Operating window of the loss scale, at weights that have had so many steps: from the lowest scale down to which "
        "the error of FP16's gradient stays within a tenth of the plateau, its error at the largest scale at which it is "
        r"finite, up to that scale. With $\leq$ or $\geq$ the end is the last scale that was tried, and the window may "
        "reach further. Crossover: the scale from which on FP16 is no worse than BF16. Every layer: where the windows of "
        "all parameters overlap, but those whose gradient is rounding noise; a negative width says that no single scale "
        "serves them all, and none that a parameter has no window at all. Flushed: elements that are zero in FP16 "
        "without scaling and not in FP32."
    )
    return longtable(columns, groups, caption=caption, label="tab:probe")


def end(value: Any, sign: str) -> str:
    """Return an exponent with a sign before it, for a terminal."""
    return "--" if pd.isna(value) else f"{sign}{int(value)}"


def whole(value: Any, sign: str = "") -> str:
    """Return a whole number with a sign of LaTeX before it."""
    return MISSING if pd.isna(value) else f"${sign}{int(value)}$"


def ends(low: Any, high: Any, low_open: bool, high_open: bool) -> str:
    """Return both ends of a window."""
    return f"{whole(low, AT_MOST if low_open else '')} to {whole(high, AT_LEAST if high_open else '')}"
