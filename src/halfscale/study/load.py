"""Read a study from YAML, or say in one line each what is wrong with it: file, key, value, what is allowed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from halfscale.errors import UserError
from halfscale.study.config import Study
from halfscale.study.explain import explain, shorten


class ConfigError(UserError):
    """A config that cannot be run; the message is for the person who wrote it."""


def load_study(files: Sequence[str | Path], overrides: Mapping[str, Any] | None = None) -> Study:
    """Read config files, each laid over the one before: mappings merge, lists and values replace.

    Args:
        files: YAML 1.2 or JSON files, at least one.
        overrides: settings laid over them all.

    Raises:
        ConfigError: a file cannot be read, or the settings do not make a study.
    """
    layers = [(str(file), read_yaml(Path(file))) for file in files]
    if overrides:
        layers.append(("overrides", dict(overrides)))
    settings: dict[str, Any] = {}
    for _, layer in layers:
        settings = overlay(settings, layer)
    owners = {str(key): name for name, layer in layers for key in layer}
    return parse_study(settings, " + ".join(name for name, _ in layers), owners)


def parse_study(settings: Mapping[str, Any], source: str, owners: Mapping[str, str] | None = None) -> Study:
    """Check settings.

    Args:
        settings: the config as a mapping.
        source: what to call it in messages.
        owners: the file that a top-level key was last set in, where there are several.

    Raises:
        ConfigError: the settings do not make a study.
    """
    try:
        return Study.model_validate(settings)
    except ValidationError as error:
        lines = [f"{(owners or {}).get(key, source)}: {line}" for key, line in explain(error, settings, Study)]
        raise ConfigError("\n".join(lines)) from None


def read_yaml(file: Path) -> dict[str, Any]:
    """Read one file. YAML 1.2, so that 1e-4 is a number and `no` is text.

    Raises:
        ConfigError: the file is missing, no YAML, or no mapping of keys to values.
    """
    try:
        settings = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
        json.dumps(settings, default=str, skipkeys=True)  # refuses an alias that holds itself
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: cannot be read: it is not UTF-8 text") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ConfigError(f"{file}: is nested too deep") from None
    except (YAMLError, ValueError) as error:
        raise ConfigError(f"{file}: is not YAML: {describe(error)}") from None
    if settings is None:
        raise ConfigError(f"{file}: is empty; a study is a mapping of keys to values")
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: holds {shorten(settings)}; a study is a mapping of keys to values")
    return settings


def describe(error: Exception) -> str:
    """Return what the YAML reader found wrong, and where, on one line."""
    if isinstance(error, MarkedYAMLError) and error.problem and error.problem_mark:
        where = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
        return " ".join(f"{where}: {error.context or ''} {error.problem}".split())
    return " ".join(str(error).split())


def parse_study_text(text: str, source: str) -> Study:
    """Check a whole study given as JSON text.

    Raises:
        ConfigError: it is no JSON mapping, or the settings do not make a study.
    """
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: is not JSON: {error}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{source}: holds {shorten(settings)}; a study is a mapping of keys to values")
    return parse_study(settings, source)


def overlay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return `above` laid over `below`: mappings merge, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = overlay(merged[key], value) if both else value
    return merged
