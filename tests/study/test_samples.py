"""Samples are whole, of one spec, and of the steps that they should be of."""

import math

import numpy as np
import pandas as pd
import pytest

from halfscale.study.records import RecordError, sha256
from halfscale.study.samples import BINS, SAMPLES, SKETCH_WIDTH, check_samples, read_samples, write_samples


def make_samples(steps=(0, 4, 8)):
    """Three sampled steps of ten, the second of them skipped."""
    counts = np.zeros(BINS, dtype=np.int32)
    counts[[0, 120]] = 3, 97
    sketch = np.linspace(-1, 1, SKETCH_WIDTH)
    return pd.DataFrame(
        {
            "step": steps,
            "exponents": [counts] * 3,
            "moved": [90, None, 80],
            "lost_bf16": [40, None, 80],
            "lost_fp16": [10, None, 0],
            "update_ratio": [0.1, None, 0.2],
            "headroom": [3.5, None, None],
            "sharpness": [0.5, None, 0.25],
            "sketch": [sketch, sketch * math.nan, -sketch],
        }
    )


@pytest.fixture
def every_four(spec):
    return spec.model_copy(update={"sample_every": 4})


def test_samples_come_back(every_four, tmp_path):
    path = tmp_path / "samples.parquet"
    digest = write_samples(make_samples(), 10, every_four, path)
    read = read_samples(path, every_four)
    assert digest == sha256(path)
    assert list(read) == SAMPLES.names
    assert read["step"].tolist() == [0, 4, 8]
    assert read["exponents"][2].tolist() == make_samples()["exponents"][2].tolist()
    assert np.isnan(read["sketch"][1]).all()  # a value, and not missing
    np.testing.assert_array_equal(read["sketch"][2], np.linspace(1, -1, SKETCH_WIDTH))
    assert read["moved"].isna().tolist() == [False, True, False]
    assert read["lost_bf16"][2] == 80


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: s[:2], r"samples of 2 steps, first \[0, 4\]; expected every 4 of 10"),
        (lambda s: s.assign(step=[0, 4, 4]), r"samples of 3 steps, first \[0, 4, 4\]"),
        (lambda s: s.assign(lost_bf16=[91, None, 1]), "lost_bf16 does not fit moved"),
        (lambda s: s.assign(lost_fp16=[1, 1, 1]), "lost_fp16 does not fit moved"),
    ],
)
def test_samples_that_cannot_be_are_refused(edit, message, every_four, tmp_path):
    check_samples(make_samples(), 10, every_four)
    with pytest.raises(RecordError, match=message):
        write_samples(edit(make_samples()), 10, every_four, tmp_path / "samples.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_nine_steps_has_three_samples_and_one_of_eight_has_two(every_four):
    check_samples(make_samples(), 9, every_four)
    with pytest.raises(RecordError, match="expected every 4 of 8"):
        check_samples(make_samples(), 8, every_four)


def test_samples_of_another_spec_or_cut_short_are_refused(every_four, spec, tmp_path):
    path = tmp_path / "samples.parquet"
    write_samples(make_samples(), 10, every_four, path)
    with pytest.raises(RecordError, match="belongs to another spec"):
        read_samples(path, spec)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(RecordError, match="is no whole samples"):
        read_samples(path, every_four)
    with pytest.raises(RecordError, match="there is no such samples"):
        read_samples(tmp_path / "nothing.parquet", every_four)
