"""A study held against its reference: clean where nothing changed, and a planted change is found and named."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from halfscale.analysis.collect import collect
from halfscale.analysis.tables import write_tables
from halfscale.analysis.verify import Compared, VerifyError, compare, record_reference, relative_difference, verify
from halfscale.study.load import load_study
from halfscale.study.runs import plan_study

ROOT = Path(__file__).parents[2]


@pytest.fixture
def study(finished_study: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "drawn"
    shutil.copytree(finished_study, folder)
    collect(folder)
    write_tables(folder)
    return folder


@pytest.fixture
def root(study: Path, tmp_path: Path) -> Path:
    """A folder of references with that of the study."""
    record_reference(study, tmp_path / "reference")
    return tmp_path / "reference"


def change(folder: Path, column: str, value: object) -> None:
    """Set a cell of the first row of runs.csv in which there is something."""
    path = folder / "tables" / "runs.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[(table[column] != "").idxmax(), column] = value
    table.to_csv(path, index=False, lineterminator="\n")


def verdicts(compared: list[Compared]) -> dict[str, str]:
    return {each.table: each.verdict for each in compared}


def test_the_same_study_verifies_clean(study: Path, root: Path) -> None:
    _, same_platform, compared = verify(study, root)
    assert same_platform
    assert verdicts(compared) == {"arms": "same", "gaps": "same", "runs": "same"}


def test_a_planted_change_in_the_last_digit_is_found_and_named(study: Path, root: Path) -> None:
    table = pd.read_csv(study / "tables" / "runs.csv")
    before = float(table["final_loss"].dropna().iloc[0])
    change(study, "final_loss", repr(before * (1 + 1e-15)))
    compared = {each.table: each for each in verify(study, root)[2]}
    assert compared["runs"].verdict == "different"
    assert "final_loss of row" in compared["runs"].where
    assert str(before) in compared["runs"].where
    assert compared["arms"].verdict == "same"


def test_a_table_that_is_missing_or_has_other_rows_is_different(study: Path, root: Path) -> None:
    (study / "tables" / "gaps.csv").unlink()
    path = study / "tables" / "arms.csv"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    found = {each.table: each for each in verify(study, root)[2]}
    assert "is missing" in found["gaps"].where
    assert "rows; the reference has" in found["arms"].where
    assert found["gaps"].verdict == found["arms"].verdict == "different"


def test_on_another_platform_numbers_have_a_tolerance_and_words_have_none(study: Path, root: Path) -> None:
    (reference,) = root.glob("made-up/*")
    manifest = json.loads((reference / "manifest.json").read_text(encoding="utf-8"))
    (reference / "manifest.json").write_text(json.dumps({**manifest, "platform": "elsewhere"}), encoding="utf-8")
    reference.rename(reference.with_name("elsewhere"))
    before = float(pd.read_csv(study / "tables" / "runs.csv")["final_loss"].dropna().iloc[0])
    for factor, verdict in ((1.09, "within tolerance"), (1.11, "different")):
        change(study, "final_loss", repr(before * factor))
        _, same_platform, compared = verify(study, root)
        assert not same_platform
        assert verdicts(compared)["runs"] == verdict
    change(study, "final_loss", repr(before))
    change(study, "status", "diverged")
    assert verdicts(verify(study, root)[2])["runs"] == "different"


def test_what_is_timed_has_a_tolerance_on_its_own_platform_too(tmp_path: Path) -> None:
    header = "workload,variant,status,step_ms,speedup\n"
    reference, own = tmp_path / "throughput.csv", tmp_path / "own.csv"
    reference.write_text(f"{header}net,bf16,timed,10,1.5\n", encoding="utf-8")
    for row, verdict in (("99,1.5", "same"), ("10,1.8", "within tolerance"), ("10,2.0", "different")):
        own.write_text(f"{header}net,bf16,timed,{row}\n", encoding="utf-8")
        assert compare(reference, own, 0.0).verdict == verdict


def test_another_study_of_the_name_and_none_at_all_are_told(study: Path, root: Path, tmp_path: Path) -> None:
    (manifest,) = root.glob("made-up/*/manifest.json")
    kept = json.loads(manifest.read_text(encoding="utf-8"))
    first = sorted(kept["specs"])[0]
    manifest.write_text(json.dumps({**kept, "specs": {**kept["specs"], first: "0"}}), encoding="utf-8")
    with pytest.raises(VerifyError, match=f"another study of this name: 1 of .* differ, the first {first}"):
        verify(study, root)
    with pytest.raises(VerifyError, match="has no reference of the study 'made-up'"):
        verify(study, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("before", "now", "difference"),
    [("2", "2.5", 0.25), ("", "1", float("inf")), ("0", "1", float("inf")), ("fp16", "bf16", float("inf"))],
)
def test_relative_difference(before: str, now: str, difference: float) -> None:
    assert relative_difference(before, now) == difference


@pytest.mark.parametrize(
    "manifest", sorted(ROOT.glob("results/reference/*/*/manifest.json")), ids=lambda path: path.parts[-3]
)
def test_a_committed_reference_is_of_the_study_as_its_config_is_now(manifest: Path) -> None:
    """After a change of the default study: `make study`, then `halfscale verify --record`."""
    kept = json.loads(manifest.read_text(encoding="utf-8"))
    plan = plan_study(load_study([ROOT / "config" / "config.yaml"]))
    assert kept["study"] == plan.study.study
    experiments = {
        f"{kind} {name}": spec.hash
        for kind, specs in plan
        if kind != "runs" and isinstance(specs, dict)
        for name, spec in specs.items()
    }
    assert kept["specs"] == {**{name: spec.hash for name, spec in plan.runs.items()}, **experiments}
