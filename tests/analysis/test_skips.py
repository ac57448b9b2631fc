"""Every skipped step has one cause, and exactly the skipped steps have one."""

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from halfscale.analysis.skips import CAUSES, skip_causes


def causes(events: str) -> list[str | None]:
    """Read a trace from text, one letter a step: s skipped, g clean and followed by growth, . clean."""
    trace = pd.DataFrame({"skipped": [event == "s" for event in events], "growth": [event == "g" for event in events]})
    found = skip_causes(trace)
    assert list(found.cat.categories) == list(CAUSES)
    return [None if pd.isna(cause) else cause for cause in found]


def test_each_cause():
    assert causes("ss.sg.gs.s") == [
        "calibration",
        "calibration",
        None,
        "calibration",
        None,
        None,
        None,
        "growth_probe",
        None,
        "sporadic",
    ]


def test_only_the_step_right_after_a_growth_is_a_probe():
    assert causes(".gss") == [None, None, "growth_probe", "sporadic"]


def test_calibration_ends_at_the_first_clean_step_after_the_scale_has_settled():
    assert causes("s.s.s") == ["calibration", None, "calibration", None, "sporadic"]
    assert causes("s..s") == ["calibration", None, None, "sporadic"]
    assert causes(".s.s") == [None, "calibration", None, "sporadic"]


def test_a_growth_ends_calibration_too():
    assert causes("sgs") == ["calibration", None, "growth_probe"]


def test_a_run_that_never_had_a_clean_step_is_all_calibration():
    assert causes("sss") == ["calibration"] * 3


def test_no_skips_no_causes():
    assert causes("..g.") == [None] * 4


@given(st.text(alphabet="sg.", min_size=1))
def test_exactly_the_skipped_steps_have_a_cause(events):
    assert [cause is not None for cause in causes(events)] == [event == "s" for event in events]
