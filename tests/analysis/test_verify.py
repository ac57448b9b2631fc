"""A study held against its reference: clean where nothing changed, and a planted change is found and named."""

import csv
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
    assert verdicts(compared) == dict.fromkeys(("arms", "gaps", "runs", "survival"), "same")


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
    assert found["arms"].where == "18 rows; the reference has 19: it lacks row transformer, bf16-scaled, 3"
    assert found["gaps"].verdict == found["arms"].verdict == "different"


def plant(lines: list[list[str]], column: str, value: str) -> list[list[str]]:
    """Return a table with the first cell of a column that holds something replaced."""
    at = lines[0].index(column)
    row = next(row for row in lines[1:] if row[at])
    row[at] = value
    return lines


PLANTED = {
    "a row less": (lambda t: [*t[:3], *t[4:]], "56 rows; the reference has 57: it lacks row resnet50, fp32, 2"),
    "a row more": (lambda t: [*t, ["transformer", "fp16-new", *t[-1][2:]]], "has another row transformer, fp16-new, "),
    "a row twice": (lambda t: [*t, t[-1]], "58 rows; the reference has 57: it has another row transformer"),
    "a column less": (lambda t: [row[:-1] for row in t], "it lacks column "),
    "a column more": (lambda t: [[*row, "1"] for row in t[:1]] + [[*row, "1"] for row in t[1:]], "another column 1"),
    "columns in another order": (lambda t: [[row[1], row[0], *row[2:]] for row in t], "orders them otherwise"),
    "a digit": (lambda t: plant(t, "init_scale", "65537.0"), "init_scale of row"),
    "NaN for a number": (lambda t: plant(t, "final_loss", "nan"), "nan; the reference has "),
    "nothing for a number": (lambda t: plant(t, "final_loss", ""), "nothing; the reference has "),
    "infinity for a number": (lambda t: plant(t, "final_loss", "inf"), "inf; the reference has "),
    "a word for a number": (lambda t: plant(t, "final_loss", "2,3"), "2,3; the reference has "),
    "another arm": (
        lambda t: plant(t, "arm", "half"),
        "arm of row 1 (resnet50, fp32, 0): half; the reference has fp32",
    ),
    "another seed": (lambda t: plant(t, "seed", "00"), "seed of row 1 (resnet50, fp32, 0): 00; the reference has 0"),
    "a status": (lambda t: plant(t, "status", "diverged"), "diverged; the reference has completed"),
    "a row cut short": (lambda t: [*t[:-1], t[-1][:4]], "has 4 cells and not "),
    "no header": (lambda t: [], "is no table"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_every_kind_of_planted_change_is_found_and_said_in_a_line(study: Path, root: Path, planted: str) -> None:
    edit, told = PLANTED[planted]
    path = study / "tables" / "runs.csv"
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(edit(lines))
    found = {each.table: each for each in verify(study, root)[2]}
    assert found["runs"].verdict == "different"
    assert told in found["runs"].where
    assert "\n" not in found["runs"].where
    assert found["arms"].verdict == found["gaps"].verdict == "same"


def test_what_is_no_text_is_different(study: Path, root: Path) -> None:
    (study / "tables" / "runs.csv").write_bytes(b"\xff\xfe")
    assert {each.table: each for each in verify(study, root)[2]}["runs"].where.endswith("runs.csv is no table")


def test_all_differing_cells_are_counted(study: Path, root: Path) -> None:
    path = study / "tables" / "gaps.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[table["gap"] != "", "gap"] = "7.5"
    table.to_csv(path, index=False, lineterminator="\n")
    where = {each.table: each for each in verify(study, root)[2]}["gaps"].where
    assert where.endswith(f"(and {(table['gap'] == '7.5').sum() - 1} more)")


def test_a_table_that_the_reference_lacks_is_told(study: Path, root: Path) -> None:
    (study / "tables" / "more.csv").write_text("a\n1\n", encoding="utf-8")
    found = {each.table: each for each in verify(study, root)[2]}
    assert (found["more"].verdict, found["more"].where) == ("different", "the reference has no such table")


def test_a_name_that_looks_like_a_number_is_a_name(tmp_path: Path) -> None:
    """On another platform a number may differ by a tenth; the arm 105 is not the arm 100, nor 010 the arm 10."""
    reference, own = tmp_path / "runs.csv", tmp_path / "own.csv"
    reference.write_text("arm,loss\n100,1.0\n", encoding="utf-8")
    for arm, loss, verdict in (
        ("100", "1.05", "within tolerance"),
        ("105", "1.0", "different"),
        ("100.0", "1", "different"),
    ):
        own.write_text(f"arm,loss\n{arm},{loss}\n", encoding="utf-8")
        assert compare(reference, own, 0.1).verdict == verdict


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"tables": {}, "platform": "x", "specs": {}}'])
def test_a_manifest_that_is_not_whole_is_told(study: Path, root: Path, text: str) -> None:
    (manifest,) = root.glob("made-up/*/manifest.json")
    manifest.write_text(text, encoding="utf-8")
    with pytest.raises(VerifyError, match=r"manifest\.json: is no whole manifest; `halfscale verify --record`"):
        verify(study, root)


def test_a_reference_that_is_not_what_was_recorded_is_told(study: Path, root: Path) -> None:
    """Else a table that is taken out of the reference would verify whatever the study has in it."""
    (table,) = root.glob("made-up/*/tables/gaps.csv")
    text = table.read_bytes()
    table.write_bytes(text.replace(b"fp16", b"fp15", 1))
    with pytest.raises(VerifyError, match=r"gaps\.csv: is not the table that was recorded"):
        verify(study, root)
    table.unlink()
    with pytest.raises(VerifyError, match=r"gaps\.csv: is not the table that was recorded"):
        verify(study, root)


def test_recording_anew_leaves_no_table_that_the_study_no_longer_has(study: Path, root: Path) -> None:
    (study / "tables" / "gaps.csv").unlink()
    record_reference(study, root)
    assert verdicts(verify(study, root)[2]) == {"arms": "same", "runs": "same", "survival": "same"}


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
    [
        ("2", "2.5", 0.25),
        ("-0.0", "0.0", 0.0),
        ("1", "1.0", 0.0),
        ("", "1", float("inf")),
        ("0", "1", float("inf")),
        ("fp16", "bf16", float("inf")),
    ],
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


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        # What is timed may come out otherwise, but not what it is held to.
        ("1,refuted,1.3,by its interval,tables/throughput.csv", "1,inconclusive,1.1,by its interval,", "same"),
        ("1,refuted,1.3,by its interval,tables/throughput.csv", "1,refuted,1.3,by another rule,", "different"),
        (
            "2,supported,0.9,by the rest,tables/practices.csv",
            "2,supported,0.9,by the rest,tables/practices.csv",
            "same",
        ),
        (
            "2,supported,0.9,by the rest,tables/practices.csv",
            "2,refuted,0.9,by the rest,tables/practices.csv",
            "different",
        ),
        (
            "2,supported,0.9,by the rest,tables/practices.csv",
            "2,supported,0.8,by the rest,tables/practices.csv",
            "different",
        ),
    ],
)
def test_what_becomes_of_a_claim_is_compared_unless_it_is_of_time(
    tmp_path: Path, before: str, now: str, verdict: str
) -> None:
    header = "id,verdict,estimate,rule,table,finding\n"
    reference, own = tmp_path / "claims.csv", tmp_path / "own.csv"
    reference.write_text(f"{header}{before},in words\n", encoding="utf-8")
    own.write_text(f"{header}{now},in other words\n", encoding="utf-8")
    assert compare(reference, own, 0.0).verdict == verdict
