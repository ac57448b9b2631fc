"""From a study to tables/claims.csv, its LaTeX, and what a person reads."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from typeset import typeset

from halfscale.analysis.claims import claim_modules, claim_name
from halfscale.analysis.claims_shown import END, START, NoPlaceError, describe_claims, markdown, put_between_marks
from halfscale.analysis.claims_tables import (
    COLUMNS,
    claims_tex,
    read_claims_table,
    read_evidence,
    settings_table,
    shown_by,
    write_claims_tables,
)
from halfscale.analysis.collect import collect, read_plan
from halfscale.analysis.samples import write_sample_tables
from halfscale.analysis.tables import write_tables
from halfscale.study.load import load_study
from halfscale.study.runs import plan_study

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(finished_study, tmp_path_factory):
    folder = shutil.copytree(finished_study, tmp_path_factory.mktemp("claims") / "made-up")
    collect(folder)
    write_tables(folder)
    write_sample_tables(folder)
    write_claims_tables(folder)
    return folder


@pytest.fixture
def claims(folder):
    return read_claims_table(folder)


def test_every_claim_has_a_row(claims):
    assert list(claims.columns) == COLUMNS
    assert list(claims["id"]) == [claim_name(module) for module in claim_modules()]


def test_made_up_runs_decide_what_they_can(claims):
    """Made-up BF16 with a scaler lies 0.018 nats above BF16 without: it is refuted that scaling changes nothing."""
    verdicts = claims.set_index("id")
    assert verdicts.loc["bf16-no-scaling", "verdict"] == "refuted"
    assert verdicts.loc["bf16-no-scaling", "table"] == "tables/runs.csv"
    assert verdicts.loc["double-speed", "verdict"] == "not testable"
    assert pd.isna(verdicts.loc["double-speed", "estimate"])


def test_same_bytes_on_every_repeat(folder):
    files = [folder / "tables" / name for name in ("claims.csv", "claims.tex")]
    first = [file.read_bytes() for file in files]
    write_claims_tables(folder)
    assert [file.read_bytes() for file in files] == first


def test_the_evidence_is_what_lies_there(folder):
    evidence = read_evidence(folder / "tables", read_plan(folder))
    assert evidence.keys() == {"arms", "runs", "exponents", "settings"}


def test_settings_say_what_every_arm_is():
    settings = settings_table(plan_study(load_study([ROOT / "config" / "config.yaml"]))).set_index(["case", "arm"])
    assert settings.loc[("", "fp16-stock"), "growth_interval"] == 2000
    assert settings.loc[("", "fp32-ulp"), "perturb"] == "ulp"
    assert settings.loc[("", "bf16"), "loss_scaling"] == "none"
    assert settings.loc[("remedies", "fp32-island"), "fp32_modules"] == "blocks.0.attention, head"
    assert settings.loc[("batch-norm", "overflow-ignored"), "model"] == "convnet"


def test_the_latex_is_typeset(claims, tmp_path):
    labels = {label for claim in claims["id"] for label in shown_by(claim)}
    body = "\n".join(rf"\section{{x}}\label{{{label}}}" for label in sorted(labels))
    typeset(f"{body}\n{claims_tex(claims)}", tmp_path)


def test_hostile_text_is_escaped(claims, tmp_path):
    worst = claims.assign(
        finding="a_b 50% #1 & {x} 3e-08", would_decide="~^\\ $ and a_very_long-name_of-an-arm_that_breaks"
    )
    typeset(claims_tex(worst.assign(verdict="not testable")), tmp_path)


def test_what_a_person_reads(claims):
    text = describe_claims(claims)
    assert "REFUTED (" in text
    assert "Would test it: " in text
    assert all(name in text for name in claims["id"])
    assert max(map(len, text.splitlines())) <= 100


def test_markdown_stands_between_its_marks_and_is_renewed(claims, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n", encoding="utf-8")
    for _ in range(2):
        put_between_marks(page, claims)
        assert page.read_text(encoding="utf-8") == f"before\n{START}\n{markdown(claims)}\n{END}\nafter\n"
    verdicts = [line.split(" | ")[1] for line in markdown(claims).splitlines()[2:]]
    order = ["supported", "refuted", "inconclusive", "not testable"]
    assert verdicts == sorted(claims["verdict"], key=order.index)


def test_a_page_without_marks_is_refused_and_left(claims, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{START} alone", encoding="utf-8")
    with pytest.raises(NoPlaceError, match=r"page\.md"):
        put_between_marks(page, claims)
    assert page.read_text(encoding="utf-8") == f"{START} alone"


def test_the_table_in_the_readme_is_that_of_the_committed_reference():
    """After a change of the default study: `halfscale verify --record`, then `halfscale claims --into README.md`."""
    reference = next(iter(sorted(ROOT.glob("results/reference/quickstart/*/tables/claims.csv"))), None)
    if reference is None:
        pytest.skip("the committed reference was recorded before there were claims")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{START}\n{markdown(read_claims_table(reference.parents[1]))}\n{END}" in readme
