"""Tables that nobody measured, from which claims are judged: every number in them is known."""

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pandas as pd

from halfscale.analysis.claims._verdict import Verdict
from halfscale.analysis.claims_tables import arm_settings
from halfscale.study.arm import Arm
from halfscale.study.claims import Claims

DYNAMIC: dict[str, Any] = {"kind": "dynamic", "growth_interval": 10}


def judge(claim: str, tables: Mapping[str, pd.DataFrame], **thresholds: Any) -> Verdict:
    """Return what a claim's own rule says of these tables."""
    module = import_module(f"halfscale.analysis.claims.{claim.replace('-', '_')}")
    found = module.judge(tables, Claims.model_validate(thresholds))
    assert found.finding
    undecided = found.kind in ("inconclusive", "not testable")
    assert bool(found.would_decide) is undecided
    assert set(tables) >= {"settings"}
    if found.kind != "not testable":
        assert found.table.removeprefix("tables/").removesuffix(".csv") in module.TABLES
        assert found.rows
    return found


def settings_of(
    arms: Sequence[Mapping[str, Any]], case: str = "", model: str = "", emulated: bool = False
) -> pd.DataFrame:
    """Return what these arms are, as claims_tables.settings_table has it."""
    rows = [{"case": case, "model": model, **arm_settings(Arm.model_validate(arm))} for arm in arms]
    return pd.DataFrame(rows).assign(emulated=emulated)


def runs_of(
    arms: Sequence[Mapping[str, Any]], *, device: str = "cpu", seeds: int = 3, workload: str = "tokens", **values: Any
) -> pd.DataFrame:
    """Return runs.csv of these arms, one completed run of 100 clean steps a seed; by arm, `values` replaces columns."""
    rows = []
    for arm in arms:
        own = arm_settings(Arm.model_validate(arm))
        for seed in range(seeds):
            usual = {
                "workload": workload,
                "seed": seed,
                "status": "completed",
                "device": device,
                "steps": 100,
                "updates": 100,
                "skipped": 0,
                "skipped_calibration": 0,
                "growths": 0,
                "overflows": 0,
                "final_loss": 2.0 + seed / 4,
            }
            rows.append(own | usual | values.get(arm["name"].replace("-", "_"), {}))
    return pd.DataFrame(rows)


def arms_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return of arms.csv what the claims read, one row a workload and arm."""
    names = ["precision", "loss_scaling", "init_scale", "growth_factor", "backoff_factor", "growth_interval"]
    first = runs.drop_duplicates(["workload", "arm"])[["workload", "arm", *names]].reset_index(drop=True)
    diverged = (
        runs.assign(diverged=runs["status"] == "diverged").groupby(["workload", "arm"], sort=False)["diverged"].sum()
    )
    overflows = runs.groupby(["workload", "arm"], sort=False)["overflows"].sum()
    return first.assign(fell_back=False, diverged=diverged.to_numpy(), overflows=overflows.to_numpy())


def study(arms: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, pd.DataFrame]:
    """Return settings, runs and arms of a study with these arms; `more` as of runs_of."""
    runs = runs_of(arms, **more)
    return {"settings": settings_of(arms), "runs": runs, "arms": arms_of(runs)}


def comparison(arm: str, verdict: str, gap: float = 0.01, half_width: float = 0.02, **values: Any) -> dict[str, Any]:
    """Return a row of equivalence.csv: three blocks, a margin of 0.05 nats."""
    return {
        "workload": "tokens",
        "arm": arm,
        "reference": "fp32",
        "n": 3,
        "of": 3,
        "gap": gap,
        "low": gap - half_width,
        "high": gap + half_width,
        "margin": 0.05,
        "smallest_margin": 0.08,
        "verdict": verdict,
        **values,
    }


def timed(device: str = "cuda", **speedups: tuple[float, float, float]) -> dict[str, pd.DataFrame]:
    """Return a study whose workloads, by name, have a BF16 variant with this speed-up and its interval.

    The 16-bit matrix product is eight times as fast as that in FP32.
    """
    rows = []
    for workload, (speedup, low, high) in speedups.items():
        base = {"workload": workload, "status": "timed", "blocks": 10.0, "disturbed": False, "transfer_ms": math.nan}
        fp32 = {"variant": "fp32", "label": "fp32", "precision": "fp32", "gemm_tflops": 50.0, "speedup": math.nan}
        bf16 = {"variant": "bf16", "label": "bf16", "precision": "bf16", "gemm_tflops": 400.0, "speedup": speedup}
        rows += [base | fp32, base | bf16 | {"speedup_low": low, "speedup_high": high}]
    return study([{"name": "fp32", "precision": "fp32"}], device=device) | {"throughput": pd.DataFrame(rows)}


def practices_of(
    arms: Sequence[Mapping[str, Any]],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    case: str = "case",
    model: str = "transformer",
) -> dict[str, pd.DataFrame]:
    """Return settings, practices and practices_runs of a case; the first arm is what the others are held against.

    Args:
        arms: as in a config.
        runs: by arm, what each of its runs has that is not usual; the others have three usual runs.
    """
    rows = []
    for arm in arms:
        for seed, values in enumerate(runs.get(arm["name"], [{}, {}, {}])):
            usual = {"status": "completed", "steps": 50, "skipped": 0, "cost": 0.0, "lost_updates": 0.0}
            empty = {"bad_where": None, "said": None, "later_steps": math.nan, "later_finite": math.nan}
            rows.append({"case": case, "arm": arm["name"], "seed": seed, **usual, **empty, **values})
    table = pd.DataFrame(rows)
    return {
        "settings": settings_of(arms, case, model),
        "practices_runs": table,
        "practices": pd.DataFrame([practice_row(arm, arms[0]["name"], table) for arm in arms]),
    }


def practice_row(arm: Mapping[str, Any], reference: str, runs: pd.DataFrame) -> dict[str, Any]:
    """Return the row of practices.csv of one arm; the interval of its cost is the range of its runs."""
    own = runs[runs["arm"] == arm["name"]]
    done = own[own["status"] == "completed"]["cost"]
    said = own["said"].dropna()
    return {
        "case": own["case"].iloc[0],
        "arm": arm["name"],
        "reference": reference,
        "pitfall": arm.get("pitfall"),
        "n": len(own),
        **{status: int((own["status"] == status).sum()) for status in ("completed", "diverged", "refused")},
        "cost": done.mean(),
        "cost_low": done.min() if len(done) > 1 else math.nan,
        "cost_high": done.max() if len(done) > 1 else math.nan,
        "later_finite": own["later_finite"].sum(min_count=1),
        "said": said.iloc[0] if len(said) else None,
    }
