import json
from pathlib import Path

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
    assert scaling["backoff_factor"]["exclusiveMinimum"] == 0
    assert scaling["backoff_factor"]["exclusiveMaximum"] == 1
    assert scaling["growth_interval"]["minimum"] == 1
