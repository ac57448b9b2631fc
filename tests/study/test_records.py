import json
import math
import os
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from halfscale.study.records import (
    COMPLETE,
    TRACE,
    Effective,
    Environment,
    RecordError,
    Summary,
    check_scale_identity,
    check_trace,
    final_steps,
    finite_or_none,
    read_summary,
    read_trace,
    sha256,
    write_summary,
    write_trace,
)


@pytest.fixture
def trace() -> pd.DataFrame:
    """Ten steps at growth_interval 5: overflow at steps 0 and 1, growth after step 6."""
    overflow = np.arange(10) < 2
    growth = np.arange(10) == 6
    return pd.DataFrame(
        {
            "step": np.arange(10),
            "loss": np.linspace(2.5, 1.5, 10),
            "oracle_loss": [1.0] * 9 + [None],
            "lr": [0.01] * 10,
            "scale": [2.0**16, 2.0**15] + [2.0**14] * 5 + [2.0**15] * 3,
            "overflow": overflow,
            "skipped": overflow,
            "growth": growth,
            "backoff": overflow,
            "updates": np.cumsum(~overflow),
            "grad_norm": [math.inf, math.nan] + [1.0] * 8,
            "grad_max": [None] * 9 + [0.5],
            "bad_parameter": ["head.weight", None] + [None] * 8,
            "bad_pass": ["backward", "forward"] + [None] * 8,
        }
    )


@pytest.fixture
def unscaled(trace) -> pd.DataFrame:
    """The same ten steps with nothing scaled: overflow goes into the weights."""
    return trace.assign(scale=None, skipped=False, growth=False, backoff=False, updates=np.arange(1, 11))


@pytest.fixture
def summary(spec) -> Summary:
    return Summary(
        run_id=spec.run_id,
        spec=spec,
        spec_hash=spec.hash,
        status="completed",
        first_bad_step=None,
        bad_where=None,
        steps=10,
        updates=8,
        skipped=2,
        overflows=2,
        growths=1,
        backoffs=2,
        init_scale=65536.0,
        final_scale=32768.0,
        initial_loss=2.5,
        final_loss=1.5,
        final_excess=None,
        floor=None,
        eval_loss=1.6,
        eval_excess=None,
        eval_accuracy=0.5,
        effective=Effective(
            device="cpu",
            precision="fp16",
            fell_back=False,
            backend="upcast",
            autocast_dtype="float16",
            scaler_enabled=True,
            tf32_matmul=False,
            tf32_convolution=False,
            fp16_reduced_precision_reduction=True,
            bf16_reduced_precision_reduction=True,
            data="0" * 64,
        ),
        environment=Environment(
            torch="2.14.1",
            torchvision="0.29.1",
            python="3.11.7",
            platform="Linux-x86_64",
            device="a CPU",
            cpu_capability="AVX512",
            cpu_features=["avx512_bf16"],
            native_fp16=False,
            native_bf16=True,
            commit="unknown",
            clean=False,
        ),
        code="0" * 64,
        seconds=1.25,
        trace_sha256="0" * 64,
        samples_sha256="0" * 64,
    )


@pytest.fixture
def other(spec):
    """A spec that differs in the seed alone."""
    return spec.model_copy(update={"seed": 1})


# traces


def test_trace_comes_back(trace, spec, tmp_path):
    path = tmp_path / "trace.parquet"
    digest = write_trace(trace, spec, path)
    read = read_trace(path, spec)
    text = ["bad_parameter", "bad_pass"]
    expected = trace.astype({field.name: field.type.to_pandas_dtype() for field in TRACE})
    pd.testing.assert_frame_equal(read.drop(columns=text), expected.drop(columns=text))
    for name in text:
        assert read[name].dropna().to_dict() == trace[name].dropna().to_dict()
    assert digest == sha256(path)
    assert os.listdir(tmp_path) == ["trace.parquet"]


def test_a_diverged_trace_keeps_its_nan_loss(unscaled, spec, tmp_path):
    """What a diverged run ends with is a value; null means not known, and a loss is always known."""
    unscaled.loc[9, "loss"] = math.nan
    write_trace(unscaled, spec, tmp_path / "trace.parquet")
    table = pq.read_table(tmp_path / "trace.parquet")
    assert table["loss"].null_count == 0
    assert math.isnan(table["loss"][9].as_py())
    assert table["scale"].null_count == 10
    assert math.isnan(read_trace(tmp_path / "trace.parquet", spec)["loss"][9])


def test_same_trace_same_bytes(trace, spec, tmp_path):
    assert write_trace(trace, spec, tmp_path / "a.parquet") == write_trace(trace, spec, tmp_path / "b.parquet")


def test_a_trace_below_a_folder_with_an_equals_sign_has_no_column_more(trace, spec, tmp_path):
    path = tmp_path / "seed=3" / "trace.parquet"
    write_trace(trace, spec, path)
    assert list(read_trace(path, spec)) == TRACE.names


def edited(trace, **columns):
    return trace.assign(**columns)


def at(trace, column, step, value):
    changed = trace[column].copy()
    changed[step] = value
    return changed


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t[:0], r"trace has 0 steps, first \[\]"),
        (lambda t: t.assign(step=np.arange(1, 11)), r"trace has 10 steps, first \[1, 2, 3\]; expected 0, 1, 2"),
        (lambda t: t.assign(step=at(t, "step", 5, 4)), "trace has 10 steps"),
        (lambda t: pd.concat([t, t[-1:].assign(step=10)]), "trace has 11 steps.* at most 10"),
        (lambda t: t.assign(updates=at(t, "updates", 9, 7)), "updates [+] skipped is not 1 on every step"),
        (lambda t: t.assign(skipped=at(t, "skipped", 0, False)), "updates [+] skipped is not 1 on every step"),
        (lambda t: t.assign(overflow=at(t, "overflow", 1, False)), "step 1 was skipped without an overflow"),
        (lambda t: t.assign(scale=None), "step 0 was skipped with nothing scaled"),
        (
            lambda t: t.assign(overflow=at(t, "overflow", 9, True)),
            "step 9 overflowed under a scaler and was not skipped",
        ),
        (lambda t: t.assign(growth=at(t, "growth", 1, True)), "step 1 overflowed and yet the scale grew"),
        (lambda t: t.assign(backoff=at(t, "backoff", 4, True)), "step 4 did not overflow and yet the scale backed off"),
        (lambda t: t.assign(bad_pass=None), "step 0 has an overflow without its pass"),
        (lambda t: t.assign(bad_pass=at(t, "bad_pass", 5, "forward")), "step 5 has .* a pass without overflow"),
        (lambda t: t.assign(growth=at(t, "growth", 3, True)), "do not explain the scale at step 4"),
        (lambda t: t.assign(growth=False), "do not explain the scale at step 7"),
        (lambda t: t.assign(backoff=False), "do not explain the scale at step 1"),
        (lambda t: t.assign(scale=t["scale"] * 2), "do not explain the scale at step 0"),
    ],
)
def test_a_trace_that_cannot_be_is_refused(edit, message, trace, spec, tmp_path):
    check_trace(trace, spec)
    with pytest.raises(RecordError, match=message):
        write_trace(edit(trace), spec, tmp_path / "trace.parquet")
    assert os.listdir(tmp_path) == []


def test_a_change_of_a_scale_that_is_not_there_is_refused(unscaled, spec):
    check_trace(unscaled, spec)
    with pytest.raises(RecordError, match="step 5 changed a scale that is not there"):
        check_trace(unscaled.assign(growth=at(unscaled, "growth", 5, True)), spec)


def test_a_static_scale_stays(trace, spec):
    static = spec.model_validate(spec.model_dump() | {"loss_scaling": {"kind": "static", "scale": 0.1}})
    trace = trace.assign(scale=np.float32(0.1), growth=False, backoff=False)
    check_trace(trace, static)
    with pytest.raises(RecordError, match="the scale is static and yet changed, at step 3"):
        check_trace(trace.assign(scale=at(trace, "scale", 3, 0.2)), static)
    with pytest.raises(RecordError, match="the scale is static and yet changed"):
        check_trace(trace.assign(backoff=at(trace, "backoff", 0, True)), static)


def test_a_scale_at_its_largest_stays_and_counts_one_growth(trace, spec):
    """from 2^126, growing after every step, the scale stays at 2^127, the largest that FP32 holds."""
    scaling = {"kind": "dynamic", "init_scale": 2.0**126, "growth_interval": 1}
    spec = spec.model_validate(spec.model_dump() | {"loss_scaling": scaling})
    check_trace(
        trace.assign(
            scale=[2.0**126] + [2.0**127] * 9,
            overflow=False,
            skipped=False,
            backoff=False,
            growth=np.arange(10) == 0,
            updates=np.arange(1, 11),
            bad_pass=None,
        ),
        spec,
    )


def refused_trace(path, spec) -> str:
    with pytest.raises(RecordError) as caught:
        read_trace(path, spec)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_missing_trace(spec, tmp_path):
    assert refused_trace(tmp_path / "trace.parquet", spec) == "there is no such trace"


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_truncated_trace(keep, trace, spec, tmp_path):
    path = tmp_path / "trace.parquet"
    write_trace(trace, spec, path)
    path.write_bytes(path.read_bytes()[:keep])
    assert re.fullmatch("is no whole trace: .*; delete it to have it run again", refused_trace(path, spec))


def test_unmarked_trace(trace, spec, tmp_path):
    path = tmp_path / "trace.parquet"
    pq.write_table(pa.Table.from_pandas(trace), path)
    assert refused_trace(path, spec) == "has no end mark, so its run did not finish; delete it to have it run again"


def test_trace_of_another_spec(trace, spec, other, tmp_path):
    path = tmp_path / "trace.parquet"
    write_trace(trace, other, path)
    assert refused_trace(path, spec) == "belongs to another spec; delete it to have it run again"


def test_trace_with_other_columns(trace, spec, tmp_path):
    path = tmp_path / "trace.parquet"
    table = pa.table({"step": [0]}).replace_schema_metadata({"spec_hash": spec.hash, "mark": COMPLETE})
    pq.write_table(table, path)
    assert refused_trace(path, spec) == "has other columns than this version writes; delete it to have it run again"


# summaries


def refused_summary(path, spec) -> str:
    with pytest.raises(RecordError) as caught:
        read_summary(path, spec)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_summary_comes_back(summary, spec, tmp_path):
    path = tmp_path / "summary.json"
    write_summary(summary, path)
    read = read_summary(path, spec)
    assert read.model_copy(update={"sha256": ""}) == summary


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        ('"final_loss": 1.5', '"final_loss": 1.0'),
        ('"status": "completed"', '"status": "diverged"'),
        ('"precision": "fp16",', '"precision": "bf16",'),
        ('"eval_accuracy": 0.5', '"eval_accuracy": 0.75'),
    ],
)
def test_a_changed_summary_is_refused_by_name(summary, spec, tmp_path, written, changed):
    path = tmp_path / "summary.json"
    write_summary(summary, path)
    text = path.read_text()
    assert written in text
    path.write_text(text.replace(written, changed))
    with pytest.raises(RecordError, match=r"summary\.json: "):
        read_summary(path, spec)
    assert os.listdir(tmp_path) == ["summary.json"]


def test_missing_summary(spec, tmp_path):
    assert refused_summary(tmp_path / "summary.json", spec) == "cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text[: len(text) // 2], "is no whole summary: Invalid JSON: EOF while parsing"),
        (lambda text: "", "is no whole summary: Invalid JSON: EOF while parsing"),
        (
            lambda text: text.replace(COMPLETE, "halfscale-begun"),
            "is no whole summary: mark: Input should be 'halfscale-complete'",
        ),
        (
            lambda text: text.replace('"final_loss": 1.5', '"final_loss": NaN'),
            "is no whole summary: final_loss: Input should be a finite number",
        ),
        (
            lambda text: text.replace('"final_loss": 1.5', '"final_loss": Infinity'),
            "is no whole summary: final_loss: Input should be a finite number",
        ),
        (lambda text: text.replace('"steps": 10,\n "up', '"up'), "is no whole summary: steps: Field required"),
        (lambda text: text.replace('"updates": 8', '"updates": 9'), "is no whole summary: Value error, 9 updates"),
        (
            lambda text: text.replace('"seed": 0', '"seed": 1'),
            "belongs to another spec",
        ),
    ],
)
def test_summary_that_is_not_whole(edit, message, summary, spec, tmp_path):
    path = tmp_path / "summary.json"
    write_summary(summary, path)
    text = path.read_text()
    assert edit(text) != text
    path.write_text(edit(text))
    refused = refused_summary(path, spec)
    assert refused.startswith(message)
    assert refused.endswith("; delete it to have it run again")


def test_summary_that_is_no_text(spec, tmp_path):
    path = tmp_path / "summary.json"
    path.write_bytes(b"\xff")
    assert refused_summary(path, spec) == "is no whole summary: it is not UTF-8 text; delete it to have it run again"


def test_summary_of_another_spec(summary, other, tmp_path):
    path = tmp_path / "summary.json"
    write_summary(summary, path)
    assert refused_summary(path, other) == "belongs to another spec; delete it to have it run again"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"updates": 9}, r"9 updates \+ 2 skipped is not 10 steps"),
        ({"steps": 9, "updates": 7}, "completed, and yet 9 of 10 steps"),
        ({"first_bad_step": 3}, "completed, and yet .* a bad step"),
        ({"status": "diverged"}, "diverged, and yet no first bad step"),
        ({"final_loss": math.nan}, "finite number"),
    ],
)
def test_summary_that_does_not_add_up(changes, message, summary):
    with pytest.raises(ValidationError, match=message):
        Summary.model_validate(summary.model_dump() | changes)


def test_a_diverged_summary_is_strict_json(summary, spec, tmp_path):
    diverged = Summary.model_validate(
        summary.model_dump()
        | {
            "status": "diverged",
            "first_bad_step": 4,
            "bad_where": "loss",
            "steps": 5,
            "updates": 3,
            "final_loss": finite_or_none(math.nan),
            "final_scale": finite_or_none(math.inf),
        }
    )
    write_summary(diverged, tmp_path / "summary.json")
    text = (tmp_path / "summary.json").read_text()
    loaded = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    assert loaded["final_loss"] is loaded["final_scale"] is None


def test_final_steps_are_a_tenth_and_at_least_one():
    assert [final_steps(steps) for steps in (1, 9, 10, 19, 45, 120)] == [1, 1, 1, 1, 4, 12]


def test_finite_or_none():
    values = [1.5, 0.0, None, math.nan, math.inf, -math.inf, np.float32(2.0)]
    assert [finite_or_none(value) for value in values] == [1.5, 0.0, None, None, None, None, 2.0]


def test_the_rounding_of_factors_that_are_no_powers_of_two_is_no_fault(spec):
    """The scale is FP32 and torch's product FP64: what each rounding takes adds up over twenty thousand growths."""
    growth_factor, backoff_factor, steps = 1.5, 0.6666667, 40_000
    scale = np.full(steps, 30_000.0, np.float32)
    for step in range(1, steps):
        scale[step] = np.float32(float(scale[step - 1]) * (growth_factor if step % 2 else backoff_factor))
    even = np.arange(steps) % 2 == 0
    made = pd.DataFrame({"scale": scale, "growth": even, "backoff": ~even})
    scaling = {
        "kind": "dynamic",
        "init_scale": 30_000.0,
        "growth_factor": growth_factor,
        "backoff_factor": backoff_factor,
        "growth_interval": 1,
    }
    spec = spec.model_validate(spec.model_dump() | {"loss_scaling": scaling})
    expected = 30_000.0 * (growth_factor * backoff_factor) ** (steps // 2)
    assert abs(np.log2(scale[-1] * 1.5 / expected)) > 1e-4  # more than what no rounding would explain
    check_scale_identity(made, spec)
    with pytest.raises(RecordError, match="do not explain the scale at step 20001"):
        check_scale_identity(made.assign(growth=even & (np.arange(steps) != 20_000)), spec)
