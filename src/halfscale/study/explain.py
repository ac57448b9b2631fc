"""Say what is wrong with a config in its writer's terms, a line each: key, value, what is allowed."""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

NUMBER_ERRORS = {
    "int_type",
    "int_from_float",
    "float_type",
    "finite_number",
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
}
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
NAME_RULE = "letters, digits, '.', '_' and '-', with no space or slash, led by a letter or digit"


@dataclass(frozen=True)
class Place:
    """Where in a config an error is."""

    key: str
    """As its writer would say it, list items by name: arms[fp16].loss_scaling.init_scale."""
    owner: Any
    """What holds the key."""
    models: list[type[BaseModel]]
    """The models that say which keys the owner may have; several in a union with no valid tag."""
    field: FieldInfo | None
    """The field of that key, or of the list that holds it."""


def explain(error: ValidationError, settings: Mapping[str, Any], root: type[BaseModel]) -> list[tuple[str, str]]:
    """Return (top-level key, line) for each thing that is wrong; the key is empty where no single one is at fault."""
    return [
        (str(details["loc"][0]) if details["loc"] else "", explain_one(details, settings, root))
        for details in error.errors(include_url=False)
    ]


def explain_one(details: Any, settings: Mapping[str, Any], root: type[BaseModel]) -> str:
    """Return what is wrong as `key = value: allowed: ...`."""
    place = locate(details["loc"], settings, root)
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    prefix = f"{place.key} = {shorten(value)}: " if place.key else ""
    if kind in NUMBER_ERRORS:
        return prefix + allowed_number(place.field, value)
    match kind:
        case "value_error" if isinstance(value, Mapping):
            return ".".join(filter(None, [place.key, str(context["error"])]))  # the message leads with the key at fault
        case "value_error":
            return prefix + str(context["error"])
        case "extra_forbidden":
            known = keys_of(place.models)
            return f"{prefix}unknown key{did_you_mean(details['loc'][-1], known)}; allowed: {', '.join(known)}"
        case "missing":
            holder = "" if place.owner is settings else f" in {shorten(place.owner)}"
            return f"{place.key}: missing{holder}; it must be given"
        case "invalid_key":
            return f"{place.key}: a key must be text; allowed: {', '.join(keys_of(place.models))}"
        case "string_pattern_mismatch":
            return f"{prefix}allowed: {NAME_RULE}"
        case "string_too_long":
            return f"{prefix}{len(value)} characters; allowed: at most {context['max_length']}"
        case "string_type" if details["loc"][-1] == "[key]":
            return f"{place.key}: a key must be text, in quotes where it looks like a number"
        case "string_type":
            return f"{prefix}allowed: text, in quotes where it looks like a number or a date"
        case "bool_type":
            return f"{prefix}allowed: true or false"
        case "list_type":
            return f"{prefix}allowed: a list"
        case "dict_type":
            return f"{prefix}allowed: a mapping of keys to values"
        case "model_type" | "model_attributes_type":
            models = models_in(place.field.annotation) if place.field else [root]
            return f"{prefix}allowed: a mapping with the keys {', '.join(keys_of(models))}"
        case "too_short":
            return f"{prefix}allowed: at least {count(context['min_length'], context['field_type'])}"
        case "too_long":
            return f"{prefix}allowed: at most {count(context['max_length'], context['field_type'])}"
        case "union_tag_not_found":
            tag = context["discriminator"].strip("'")
            return f"{place.key}.{tag}: missing in {shorten(value)}; allowed: {', '.join(tags_of(place.field, tag))}"
        case "union_tag_invalid":
            tag = context["discriminator"].strip("'")
            given = shorten(value[tag])
            return f"{place.key}.{tag} = {given}: allowed: {', '.join(tags_of(place.field, tag))}"
        case _:
            return prefix + details["msg"].replace("Input should be", "allowed:")


def locate(loc: Sequence[str | int], settings: Mapping[str, Any], root: type[BaseModel]) -> Place:
    """Follow an error's location through the settings and the models at once."""
    key, field = "", None
    here: Any = settings
    owner: Any = settings
    inner: list[type[BaseModel]] = [root]
    models = inner
    names_follow = False  # of a mapping whose keys are the user's own
    for part in loc:
        if part == "[key]":
            continue
        if len(inner) > 1:  # the tag of a union, which stands in no file
            inner = [model for model in inner if part in tags_in(model.model_fields.values())]
            continue
        owner, models = here, inner
        if isinstance(here, list | tuple) and isinstance(part, int):
            here = here[part]
            key += f"[{show_key(here.get('name', part) if isinstance(here, Mapping) else part)}]"
            continue
        here = here.get(part) if isinstance(here, Mapping) else None
        key += f".{show_key(part)}" if key else show_key(part)
        if names_follow:
            names_follow = False
            continue
        field = models[0].model_fields.get(str(part)) if models else None
        inner = models_in(field.annotation) if field else []
        names_follow = field is not None and get_origin(field.annotation) is dict
    return Place(key, owner, models, field)


def allowed_number(field: FieldInfo | None, value: Any) -> str:
    """Return which numbers a field takes, such as `allowed: a number, above 0 and below 1`."""
    parts = list(parts_of(field))
    kind = "a whole number" if int in parts else "a number"
    bounds = [
        f"{word} {power_of_two(getattr(part, name))}"
        for name, word in BOUNDS.items()
        for part in parts
        if getattr(part, name, None) is not None
    ]
    text = ", ".join(filter(None, [kind, " and ".join(bounds)])) + (", or null" if type(None) in parts else "")
    if isinstance(value, str):
        example = "65536" if int in parts else "65536, 0.0001 or 1e-4"
        return f"this is text; allowed: {text}, written without quotes, such as {example}"
    return f"allowed: {text}"


def parts_of(item: Any) -> Iterable[Any]:
    """Yield every type and constraint that an annotation is made of."""
    if isinstance(item, FieldInfo):
        inner = (item.annotation, *item.metadata)
    else:
        yield item
        inner = (*get_args(item),)
    for part in inner:
        yield from parts_of(part)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the config models that an annotation mentions."""
    return [part for part in parts_of(annotation) if isinstance(part, type) and issubclass(part, BaseModel)]


def keys_of(models: Iterable[type[BaseModel]]) -> list[str]:
    """Return the keys that any of these models has, in the order they are written in."""
    return list(dict.fromkeys(name for model in models for name in model.model_fields))


def tags_of(field: FieldInfo | None, tag: str) -> list[str]:
    """Return the tags of a field that is a union of models."""
    models = models_in(field.annotation) if field else []
    return [value for model in models for value in tags_in([model.model_fields[tag]])]


def tags_in(fields: Iterable[FieldInfo]) -> list[str]:
    return [value for field in fields for value in get_args(field.annotation) if isinstance(value, str)]


def did_you_mean(given: Any, known: Iterable[str]) -> str:
    """Return a hint in brackets where something known is spelt much like what was given."""
    close = difflib.get_close_matches(str(given), list(known), n=1)
    return f" (did you mean {close[0]}?)" if close and close[0] != given else ""


def count(number: int, what: str) -> str:
    word = "key" if what == "Dictionary" else "item"
    return f"{number} {word}{'' if number == 1 else 's'}"


def power_of_two(value: float) -> str:
    """Return a number as text, powers of two beyond a thousand either way as 2^n."""
    mantissa, exponent = math.frexp(value)
    return f"2^{exponent - 1}" if mantissa == 0.5 and abs(exponent) > 10 else f"{value:g}"


def show_key(key: Any) -> str:
    """Return a key as it stands in a path: bare where it can be read so."""
    text = str(key)
    return text if text.isprintable() and 0 < len(text) <= 80 else shorten(key)


def shorten(value: Any) -> str:
    """Return a value as it is shown in a message: as YAML writes it, and no longer than a line bears."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ("-" * (value < 0)) + ".inf"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
