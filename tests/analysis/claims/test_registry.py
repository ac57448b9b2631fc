"""Every claim is found by its file, and has what a claim needs."""

import re
from importlib import import_module

import pandas as pd
import pytest

from halfscale.analysis.claims import claim_modules, claim_name, claim_tables
from halfscale.study.claims import Claims

CLAIMS = {
    "half-memory",
    "double-speed",
    "half-transfer",
    "bf16-no-scaling",
    "bf16-no-loss",
    "fp16-needs-scaling",
    "defaults-fine",
    "lower-init-scale",
    "stronger-backoff",
    "fp32-islands",
    "clip-order",
    "forgotten-update",
    "no-tensor-cores",
    "batchnorm-safe",
    "layernorm-fp32",
    "master-weights",
    "amp-costs-memory-small-batch",
}
TABLES = {
    *("arms", "runs", "equivalence", "exponents", "probe_scales", "memory", "throughput"),
    *("practices", "practices_runs", "autocast_operations"),
}
THRESHOLDS = Claims().model_dump()


def test_the_claims_are_these():
    assert [claim_name(module) for module in claim_modules()] == sorted(CLAIMS)


def test_the_tables_are_read_from_the_sources_as_the_modules_have_them():
    assert claim_tables() == {table for name in claim_modules() for table in import_module(name).TABLES} == TABLES


@pytest.mark.parametrize("name", claim_modules())
def test_a_claim_has_its_parts(name):
    module = import_module(name)
    assert module.STATEMENT[-1] not in ".!?"
    assert module.RULE.endswith(".")
    figure, table = module.SHOWN
    assert figure.startswith("fig:")
    assert table.startswith("tab:")


@pytest.mark.parametrize("name", claim_modules())
def test_the_thresholds_that_a_rule_names_are_in_the_config(name):
    """And those that its code reads are named in the rule."""
    rule = import_module(name).RULE
    for owner, key in re.findall(r"\b([a-z0-9]+(?:_[a-z0-9]+)+|remedies)\.([a-z_]+)\b", rule):
        assert key in THRESHOLDS[owner], f"{owner}.{key}"
    with open(import_module(name).__file__, encoding="utf-8") as file:
        read = re.findall(r"thresholds\.(\w+)", file.read())
    assert all(threshold in rule for threshold in read)


@pytest.mark.parametrize("name", claim_modules())
def test_without_its_tables_no_claim_is_judged(name):
    """A study of FP32 alone, on a CPU, that measures nothing beside its runs."""
    from made_up_claims import judge, study

    found = judge(claim_name(name), study([{"name": "fp32", "precision": "fp32"}]))
    assert found.kind == "not testable"
    assert pd.isna(found.estimate)
