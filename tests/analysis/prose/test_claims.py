"""The sentences on the claims: verdicts decide which of them stand."""

import re

import pandas as pd
import pytest

from halfscale.analysis.claims import claim_modules, claim_name
from halfscale.analysis.claims_tables import COLUMNS
from halfscale.analysis.prose.claims import TOLD_FIRST, abstract_claims, claim_rules, claims, conclusion_claims
from halfscale.analysis.prose.practice import ADVICE, practice
from halfscale.study.claims import Claims

IDS = [claim_name(module) for module in claim_modules()]


def table(**verdicts):
    """A table of claims with these verdicts; the others are not testable."""
    rows = []
    for name in IDS:
        verdict = verdicts.get(name.replace("-", "_"), "not testable")
        tried = verdict != "not testable"
        row = {"id": name, "verdict": verdict, "statement": f"{name} holds", "finding": "Found."}
        row |= {"estimate": 0.5, "low": 0.4, "high": 0.6, "interval": "95 % interval over blocks"} if tried else {}
        row |= {"would_decide": "" if verdict in ("supported", "refuted") else "a GPU"}
        rows.append(row)
    plain = {"interval": "", "unit": "", "rule": "By its rule.", "table": "", "rows": "", "would_decide": ""}
    return pd.DataFrame([plain | row for row in rows], columns=COLUMNS)


def test_counts_name_the_verdicts_that_there_are():
    text = claims(table(clip_order="supported", half_memory="refuted"))
    counted = (
        r"supports \val{claims.supported}, refutes \val{claims.refuted} and cannot test \val{claims.not_testable}."
    )
    assert counted in text
    assert "open" not in text.split("\n")[0]


def test_a_claim_is_told_with_its_interval_and_where_it_is_shown():
    text = claims(table(clip_order="supported"))
    assert r"[\val{claims.clip-order.low}, \val{claims.clip-order.high}]" in text
    assert r"Figure~\ref{fig:practices}, Table~\ref{tab:practices}" in text
    assert r"\ref{fig:speedup}" not in text  # of a claim that is not testable, whose figure may not be there


def test_what_is_open_says_what_would_decide():
    text = claims(table(clip_order="inconclusive"))
    assert r"\paragraph{Open.}" in text
    assert "What would decide it: a GPU." in text


def test_the_abstract_names_the_first_of_each_verdict():
    text = abstract_claims(table(clip_order="supported", bf16_no_loss="supported", half_memory="refuted"))
    assert "for the claim that bf16-no-loss holds, and against the claim that half-memory holds" in text
    assert "The evidence" not in abstract_claims(table())
    assert "The evidence is against the claim that" in abstract_claims(table(half_memory="refuted"))


def test_the_conclusion_counts_what_is_open():
    text = conclusion_claims(table(clip_order="supported", half_memory="inconclusive", fp32_islands="inconclusive"))
    assert "that clip-order holds" in text
    assert "For the two left open" in text
    assert "does not hold" not in text


def test_what_is_told_first_are_claims():
    assert set(TOLD_FIRST) <= set(IDS)


def test_every_claim_has_advice_for_either_verdict():
    advised = {claim: told for theme in ADVICE.values() for claim, told in theme.items()}
    assert advised.keys() == set(IDS)
    assert all(told.keys() == {"supported", "refuted"} for told in advised.values())


@pytest.mark.parametrize("verdict", ["supported", "refuted"])
def test_advice_follows_from_the_verdict(verdict):
    text = practice(table(clip_order=verdict))
    assert ADVICE["The training loop"]["clip-order"][verdict] in text
    assert ADVICE["Memory and speed"]["half-memory"][verdict] not in text
    assert r"\paragraph{No advice.}" in text


def test_the_rules_are_told_with_their_thresholds():
    text = claim_rules(table(), Claims())
    assert r"\code{half\_memory.ratio} $0.5$" in text
    assert text.count(r"\item") == len(IDS)
    assert not re.search(r"(?<!\\)_", text.replace(r"\code", ""))
