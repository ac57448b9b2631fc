"""The JSON Schema of a config, for editors that complete and check as one types.

python -m halfscale.study.schema config/schema.json
"""

import json
import sys
from pathlib import Path

from pydantic.json_schema import GenerateJsonSchema

from halfscale.study.config import Study
from halfscale.study.whole import write_text


class Untitled(GenerateJsonSchema):
    """Leaves out a title for each field, which would only repeat its name."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema_text() -> str:
    """Return the schema as JSON text, field docstrings as descriptions."""
    schema = {"$schema": Untitled.schema_dialect, **Study.model_json_schema(schema_generator=Untitled)}
    return json.dumps(schema, indent=1, allow_nan=False) + "\n"


def write_schema(path: Path) -> None:
    """Write the schema to a file."""
    write_text(path, schema_text())


if __name__ == "__main__":
    write_schema(Path(sys.argv[1]))
