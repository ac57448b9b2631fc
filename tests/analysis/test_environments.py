"""Where the runs were computed: every distinct environment once, with the number of its distinct runs."""

import json
import shutil
from pathlib import Path

import pytest
from made_up import write_run

from halfscale.analysis.collect import collect, read_plan
from halfscale.analysis.environments import read_environments
from halfscale.study.records import RecordError, read_trace
from halfscale.study.runs import member_specs


@pytest.fixture
def study(finished_study: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_study, tmp_path / "made-up"))


def test_one_machine_is_one_environment_and_arms_that_are_one_run_count_once(study: Path) -> None:
    collect(study)
    found = read_environments(study)
    distinct = {member.run_id for member, _ in member_specs(read_plan(study))}
    assert [share.runs for share in found.shares] == [len(distinct)]
    assert (found.devices, found.torch, found.clean) == (["Made-up CPU"], ["2.14.1"], True)


def test_a_run_of_another_machine_or_of_changed_code_is_told(study: Path) -> None:
    *_, (member, spec) = member_specs(read_plan(study))
    run = study / "runs" / member.run_id
    elsewhere = {"device": "Another CPU", "commit": "f" * 40, "clean": False}
    write_run(run, spec, read_trace(run / "trace.parquet", spec), environment=elsewhere)
    collect(study)
    found = read_environments(study)
    assert found.devices == ["Another CPU", "Made-up CPU"]
    assert found.commits[-1] == "f" * 40
    assert not found.clean
    assert found.shares[-1].runs == 1


@pytest.mark.parametrize("text", ["", "{", json.dumps({"shares": [{"runs": 1}]})])
def test_what_is_not_whole_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "environments.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        RecordError, match=r"environments\.json: is no whole record; `halfscale collect` writes it anew"
    ):
        read_environments(tmp_path)
