import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from halfscale.study.load import load_study
from halfscale.study.schema import schema_text, write_schema

COMMITTED = Path(__file__).parents[2] / "config" / "schema.json"


def test_committed_schema_is_fresh():
    assert COMMITTED.read_text(encoding="utf-8") == schema_text(), (
        "stale: run `python -m halfscale.study.schema config/schema.json`"
    )


def test_schema_is_written(tmp_path):
    write_schema(tmp_path / "schema.json")
    assert (tmp_path / "schema.json").read_text(encoding="utf-8") == schema_text()


def test_every_key_is_described_and_unknown_ones_are_refused():
    schema = json.loads(schema_text())
    for model in [schema, *schema["$defs"].values()]:
        assert model["additionalProperties"] is False
        assert model["description"]
        for key, part in model["properties"].items():
            assert "description" in part or "const" in part, f"{model['title']}.{key}"


def test_bounds_are_in_the_schema():
    scaling = json.loads(schema_text())["$defs"]["DynamicLossScaling"]["properties"]
    assert scaling["backoff_factor"]["minimum"] == 2.0**-126
    assert scaling["backoff_factor"]["exclusiveMaximum"] == 1
    assert scaling["growth_interval"]["minimum"] == 1


CONFIGS = sorted(COMMITTED.parent.glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_committed_configs_pass_both_the_schema_and_the_model(path):
    jsonschema.validate(YAML(typ="safe").load(path), json.loads(schema_text()))
    assert load_study([path]).study


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("growth_intervall", 5),
        ("arms 0 precision", "no"),
        ("arms 2 loss_scaling backoff_factor", 0),
        ("arms 2 loss_scaling kind", "dynmic"),
        ("workloads 0 optimizer lr", "1e-4"),
        ("workloads 0 name", "a b"),
        ("arms", []),
    ],
)
def test_the_schema_refuses_what_the_model_refuses(path, value, settings, change):
    jsonschema.validate(settings, json.loads(schema_text()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(change(path, value), json.loads(schema_text()))
