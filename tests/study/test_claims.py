"""The thresholds of the claims: read by the analysis alone, and refused by name where they make no sense."""

import pytest

from halfscale.study.config import Study
from halfscale.study.load import ConfigError, parse_study
from halfscale.study.runs import plan_study


def test_a_threshold_moves_no_run(settings):
    before = plan_study(Study.model_validate(settings))
    settings["experiments"] = {"claims": {"blocks": 5, "half_memory": {"ratio": 0.6}}}
    after = plan_study(Study.model_validate(settings))
    assert after.study.experiments.claims.half_memory.ratio == 0.6
    assert after.study.experiments.claims.half_memory.tolerance == 0.05
    assert after.runs == before.runs
    assert after.to_json() != before.to_json()


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"blocks": 1}, r"experiments\.claims\.blocks = 1: allowed: a whole number, at least 2"),
        ({"half_memory": {"ratio": 1.5}}, r"experiments\.claims\.half_memory\.ratio = 1\.5: allowed: .*at most 1"),
        ({"half_memry": {}}, r"experiments\.claims\.half_memry = .*did you mean half_memory"),
        ({"defaults_fine": {"factor": 1}}, r"experiments\.claims\.defaults_fine\.factor = 1"),
    ],
)
def test_a_bad_threshold_is_refused_by_name(settings, claims, told):
    settings["experiments"] = {"claims": claims}
    with pytest.raises(ConfigError, match=told):
        parse_study(settings, "my.yaml")
