"""Sentences on equivalence, instability and learning rates: each stands where the numbers make it true."""

import math
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from made_up_comparisons import EQUIVALENCE, make_equivalence, make_sweep, with_margin

from halfscale.analysis.claims_tables import write_claims_tables
from halfscale.analysis.collect import collect
from halfscale.analysis.prose import Measured, write_prose
from halfscale.analysis.prose.equivalence import equivalence, seeds_reach
from halfscale.analysis.prose.sensitivity import sensitivity
from halfscale.analysis.prose.survival import survival
from halfscale.analysis.published import write_published_tables
from halfscale.analysis.samples import write_sample_tables
from halfscale.analysis.sensitivity import sensitivity_table
from halfscale.analysis.tables import write_tables


def comparison(arm, verdict, **values):
    row = {"workload": "w", "arm": arm, "n": 3, "of": 3, "margin": 0.05, "p_holm": 0.5, "p_different_holm": 0.5}
    row |= {"smallest_margin": 0.02, "smallest_margin_sd": 2.66, "verdict": verdict}
    return row | values


def said(*rows):
    return equivalence(pd.DataFrame(rows), 0.05)


def test_all_equivalent():
    text = said(comparison("a", "equivalent"), comparison("b", "equivalent"))
    assert text.startswith(
        r"\paragraph{w.} All two arms that can be compared are shown to end within a margin of "
        r"\val{equivalence.w.a.margin} nats of the reference's loss."
    )
    assert "more than the margin" not in text


def test_some_equivalent_others_not():
    text = said(
        comparison("a", "equivalent"),
        comparison("b", "different"),
        comparison("c", "inconclusive", smallest_margin=0.1),
        comparison("d", "identical", smallest_margin=0.0),
    )
    assert r"Of the four arms that can be compared, one is shown to end within a margin" in text
    assert r"\code{d} ends at the reference's own loss in every block, bit for bit." in text
    assert (
        r"A difference from it is shown for \code{b}, by \val{equivalence.w.b.gap} nats [\val{equivalence.w.b.low}, "
        r"\val{equivalence.w.b.high}]." in text
    )
    assert r"For \code{c} the blocks show neither." in text
    assert r"between \val{equivalence.w.a.smallest_margin} (\code{a}) and \val{equivalence.w.c.smallest_margin}" in text


def test_seeds_that_the_margin_would_take():
    """Gaps whose standard deviation is the margin take 11 blocks, half of it 4, as METHOD's table has it."""
    alone = said(comparison("a", "inconclusive", smallest_margin=0.05 * 2.66))
    assert (
        r"For \code{a} that is more than the margin asked for: to show it with 80\,\% power would take 11 blocks."
        in alone
    )
    both = said(
        comparison("a", "inconclusive", smallest_margin=0.05 * 2.66),
        comparison("b", "inconclusive", smallest_margin=0.05 * 2.66 / 1.5),
    )
    assert r"For every arm that is more than the margin asked for" in both
    assert "would take between 6 and 11 blocks" in both
    assert "None of the two arms that can be compared is shown" in both
    assert "A difference is not shown either, once Holm's correction is made." in both


def test_what_diverged_is_said_to_have_no_verdict():
    text = said(comparison("a", "equivalent"), comparison("b", "not comparable", n=2))
    assert r"\code{b} is not comparable: a run of it or of the reference diverged." in text
    assert text.startswith(r"\paragraph{w.} The one arm that can be compared, \code{a}, is shown to end within")


def test_one_block():
    text = said(comparison("a", "not comparable", n=1, of=1, smallest_margin=math.nan))
    assert text == (
        r"\paragraph{w.} No arm of this workload can be compared. For a verdict on \code{a} there are too few blocks."
        "\n"
    )


def test_reach_of_blocks():
    assert seeds_reach(3, 3, 0.05) == "$2.66$"
    assert seeds_reach(3, 6, 0.05) == "$1.40$ to $2.66$"


@pytest.fixture(scope="module")
def study(finished_study, tmp_path_factory):
    folder = shutil.copytree(finished_study, tmp_path_factory.mktemp("prose") / "made-up")
    collect(folder)
    write_tables(folder)
    write_sample_tables(folder)
    write_published_tables(folder)
    write_claims_tables(folder)
    return folder


def test_unstable_runs_are_counted_by_cause(study):
    measured = Measured.read(study)
    text = survival("resnet50", measured.of("resnet50"))
    runs = measured.of("resnet50").runs
    unstable = runs["instability"].notna().sum()
    assert text.startswith("Of 27 runs, ")
    assert unstable == 13
    assert "13 became unstable, four by diverging, " in text
    assert r"It happened to no run of \code{fp32}, \code{fp32-ulp}, \code{bf16} and \code{bf16-fallback}." in text


def test_a_calm_workload(study):
    part = Measured.read(study).of("transformer")
    calm = replace(part, runs=part.runs[part.runs["arm"] == "fp32"])
    assert survival("transformer", calm) == "None of the three runs became unstable."


def test_one_cause():
    runs = pd.DataFrame(
        {
            "arm": ["a", "a", "b"],
            "instability": ["spike", None, None],
            "first_instability": pd.array([7, None, None], dtype="Int64"),
        }
    )

    class Part:
        pass

    part = Part()
    part.runs = runs  # type: ignore[attr-defined]
    assert survival("w", part) == (  # type: ignore[arg-type]
        r"Of three runs, one became unstable, by a spike of the loss. It happened to some runs of \code{a}. It happened to no "
        r"run of \code{b}. The earliest is at step $7$, in a run of \code{a}."
    )


def test_sensitivity_of_a_sweep():
    text = sensitivity(sensitivity_table(make_sweep()))
    first = text.split("\n\n")[0]
    assert first.startswith(
        r"\paragraph{resnet50.} Over five rates from \val{sensitivity.resnet50.fp32.lowest_lr} to "
        r"\val{sensitivity.resnet50.fp32.highest_lr}, the sensitivity of \code{fp32} is "
        r"\val{sensitivity.resnet50.fp32.sensitivity} nats, and its best rate is "
    )
    assert r"That of others differs in the same blocks: \code{bf16}, by " in first
    assert r"The interval of the difference contains zero for \code{fp16}." in first
    assert r"Of the runs of the sweep diverged 1 of 15 of \code{fp16}." in first


def test_the_paper_reads_the_sections_of_what_the_study_asks(study):
    plain = Measured.read(study)
    assert "sections" not in write_prose(plain, [])["comparisons"]
    assert r"\studyequivalencefalse" in write_prose(plain, [])["definitions"]
    asked = replace(
        plain,
        plan=with_margin(plain.plan),
        equivalence=make_equivalence(study),
        sensitivity=sensitivity_table(make_sweep()),
    )
    parts = write_prose(asked, [])
    assert parts["comparisons"] == "\\input{sections/equivalence}\n\\input{sections/sensitivity}\n"
    assert parts["comparison_tables"] == "\\input{tables/equivalence}\n\\input{tables/sensitivity}\n"
    assert r"\studyequivalencetrue" in parts["definitions"]
    assert r"\newcommand{\studyreach}{$2.66$}" in parts["definitions"]
    assert EQUIVALENCE.margin.nats == 0.01
    assert r"\paragraph{transformer.}" in parts["equivalence"]
