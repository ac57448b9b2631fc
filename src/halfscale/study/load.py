"""Read a study from YAML, or say in one line each what is wrong with it: file, key, value, what is allowed."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from halfscale.study.config import Study


class ConfigError(ValueError):
    """A config that cannot be run; the message is for the person who wrote it."""


def load_study(files: Sequence[str | Path], overrides: Mapping[str, Any] | None = None) -> Study:
    """Read config files, each laid over the one before: mappings merge, lists and values replace.

    Args:
        files: YAML 1.2 or JSON files, at least one.
        overrides: settings laid over them all.

    Raises:
        ConfigError: a file cannot be read, or the settings do not make a study.
    """
    settings: dict[str, Any] = {}
    for file in files:
        settings = overlay(settings, read_yaml(Path(file)))
    settings = overlay(settings, dict(overrides or {}))
    return parse_study(settings, source=" + ".join(map(str, files)))


def parse_study(settings: Mapping[str, Any], source: str) -> Study:
    """Check settings; source names them in messages.

    Raises:
        ConfigError: the settings do not make a study.
    """
    try:
        return Study.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain(error, settings, source)) from None


def read_yaml(file: Path) -> dict[str, Any]:
    """Read one file. YAML 1.2, so that 1e-4 is a number and `no` is text.

    Raises:
        ConfigError: the file is missing, no YAML, or no mapping of keys to values.
    """
    try:
        settings = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    except (YAMLError, ValueError) as error:
        raise ConfigError(f"{file}: is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: holds {type(settings).__name__}; a study is a mapping of keys to values")
    return settings


def overlay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return `above` laid over `below`: mappings merge, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = overlay(merged[key], value) if both else value
    return merged


def explain(error: ValidationError, settings: Mapping[str, Any], source: str) -> str:
    """Return one line for each thing that is wrong."""
    return "\n".join(f"{source}: {explain_one(details, settings)}" for details in error.errors(include_url=False))


def explain_one(details: Any, settings: Any) -> str:
    """Return what is wrong as `key = value: what is allowed`."""
    key, owner = locate(details["loc"], settings)
    value = shorten(details["input"])
    prefix = f"{key} = {value}: " if key else ""
    match details["type"]:
        case "value_error":
            where = f"{key}: " if key and not isinstance(details["input"], int | float | str) else prefix
            return where + str(details["ctx"]["error"])
        case "extra_forbidden":
            known = known_keys(details["loc"][:-1])
            close = difflib.get_close_matches(str(details["loc"][-1]), known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            return f"{prefix}unknown key{hint}; allowed: {', '.join(known)}"
        case "missing":
            return f"{key}: missing{f' in {shorten(owner)}' if isinstance(owner, Mapping) else ''}; it must be given"
        case "string_pattern_mismatch":
            return (
                f"{prefix}a name is letters, digits, '.', '_' and '-', with no space or slash, led by a letter or digit"
            )
        case "finite_number":
            return f"{prefix}allowed: a finite number"
        case "float_type" | "int_type" if isinstance(details["input"], str):
            return f"{prefix}this is text; allowed: a number, written without quotes, such as 0.0001 or 1e-4"
        case "union_tag_not_found":
            return f"{prefix}kind is missing; allowed: {details['ctx'].get('discriminator', 'kind')}: dynamic, static or none"
        case "union_tag_invalid":
            return f"{key}.kind = {details['ctx']['tag']!r}: allowed: {details['ctx']['expected_tags']}"
        case _:
            return prefix + details["msg"].replace("Input should be", "allowed:").replace(
                "allowed: a valid", "allowed: a"
            )


def locate(loc: Sequence[str | int], settings: Any) -> tuple[str, Any]:
    """Return a key's path as its reader would write it (list items by name), and what holds the key."""
    key, owner, here = "", settings, settings
    for part in loc:
        owner = here
        if isinstance(here, list | tuple) and isinstance(part, int) and part < len(here):
            here = here[part]
            name = here.get("name", part) if isinstance(here, dict) else part
            key += f"[{name}]"
        elif isinstance(here, Mapping) and (part in here or part == loc[-1]):
            here = here.get(part)
            key += f".{part}" if key else str(part)
        # anything else is the tag of a union, which stands in no file
    return key, owner


def known_keys(loc: Sequence[str | int]) -> list[str]:
    """Return the keys allowed at a place in the config, from the models themselves."""
    models: list[type[BaseModel]] = [Study]
    for part in loc:
        found = [
            inner
            for model in models
            if part in model.model_fields
            for inner in models_in(model.model_fields[str(part)].annotation)
        ]
        tagged = [model for model in models if str(part) in str(model.model_fields.get("kind", ""))]
        models = found or tagged or models
    return sorted({name for model in models for name in model.model_fields})


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the config models that an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in getattr(annotation, "__args__", ()) for model in models_in(inner)]


def shorten(value: Any) -> str:
    """Return a value as it is shown in a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
