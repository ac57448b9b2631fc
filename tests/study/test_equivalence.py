"""A margin is a positive number of nats or of standard deviations, and no run depends on it."""

import copy

import pytest

from halfscale.study.load import ConfigError, parse_study
from halfscale.study.runs import plan_study


@pytest.mark.parametrize(
    ("equivalence", "complaint"),
    [
        ({"margin": {"nats": 0}}, r"experiments\.equivalence\.margin\.nats = 0: allowed: a number, above 0"),
        ({"margin": {"nats": -0.1}}, r"margin\.nats = -0\.1: allowed: a number, above 0"),
        ({"margin": {"nats": float("nan")}}, r"margin\.nats = \.nan: allowed: a number, above 0"),
        ({"margin": {"nats": "0.05"}}, r"margin\.nats = '0\.05': this is text; allowed: a number, above 0"),
        ({"margin": {}}, r"experiments\.equivalence\.margin.*no margin is given; allowed: nats, reference_sd or both"),
        ({"margin": 0.05}, r"equivalence\.margin = 0\.05: allowed: a mapping with the keys nats, reference_sd"),
        ({"margin": {"nat": 0.05}}, r"margin\.nat = 0\.05: unknown key \(did you mean nats\?\)"),
        ({"margin": {"reference_sd": 0}}, r"margin\.reference_sd = 0: allowed: a number, above 0"),
        ({"margin_of": {"nobody": {"nats": 1}}}, r"equivalence\.margin_of: 'nobody' is no workload; allowed: "),
        ({"alpha": 0.5}, r"equivalence\.alpha = 0\.5: allowed: a number, at least 0\.0001 and at most 0\.2"),
    ],
)
def test_a_bad_margin_is_refused_by_name(settings, equivalence, complaint):
    settings["experiments"] = {"equivalence": equivalence}
    with pytest.raises(ConfigError, match=complaint):
        parse_study(settings, "test")


def test_no_run_depends_on_a_margin(settings):
    before = plan_study(parse_study(copy.deepcopy(settings), "test"))
    name = settings["workloads"][0]["name"]
    settings["experiments"] = {"equivalence": {"margin_of": {name: {"nats": 0.1, "reference_sd": 1}}, "alpha": 0.01}}
    after = plan_study(parse_study(settings, "test"))
    assert {run_id: run.canonical() for run_id, run in after.runs.items()} == {
        run_id: run.canonical() for run_id, run in before.runs.items()
    }


def test_by_default_a_twentieth_of_a_nat_counts_as_none(settings):
    settings["experiments"] = {"equivalence": {}}
    found = parse_study(settings, "test").experiments.equivalence
    assert found is not None
    assert (found.margin.nats, found.margin.reference_sd, found.alpha) == (0.05, None, 0.05)
