"""A sweep: a factorial of arms written as one config entry."""

import math
from itertools import product
from typing import Annotated, Any

from pydantic import Field, ValidationError

from halfscale.study.arm import Arm, DynamicLossScaling, StaticLossScaling
from halfscale.study.explain import did_you_mean, explain, show_key
from halfscale.study.model import Model, Name

OF_THE_ARM = ["precision", "lr_factor"]
KEYS = list(dict.fromkeys([*OF_THE_ARM, *DynamicLossScaling.model_fields, *StaticLossScaling.model_fields]))


class Sweep(Model):
    """A factorial of arms over precision, lr_factor or any loss-scaling key, each a copy of the base arm but for these."""

    name: Name
    """Leads the name of every arm of the sweep."""
    base: Name
    """The arm that supplies every other setting."""
    over: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]
    """For each key, the values it takes: precision, lr_factor, or any key of loss_scaling."""


def expand_sweeps(arms: list[Arm], sweeps: list[Sweep]) -> list[Arm]:
    """Return the arms followed by every arm of every sweep, in config order.

    Within a sweep the order is that of KEYS, the last one fastest, however the config orders its keys.

    Raises:
        ValueError: a sweep's base is no arm, or it sweeps over a key or a value that arms do not have.
    """
    by_name = {arm.name: arm for arm in arms}
    expanded = list(arms)
    for sweep in sweeps:
        if sweep.base not in by_name:
            raise ValueError(f"sweeps[{sweep.name}].base = {sweep.base!r}: no such arm; allowed: {', '.join(by_name)}")
        for key in sweep.over:
            if key not in KEYS:
                hint = did_you_mean(key, KEYS)
                raise ValueError(
                    f"sweeps[{sweep.name}].over.{show_key(key)}: unknown key{hint}; allowed: {', '.join(KEYS)}"
                )
        keys = [key for key in KEYS if key in sweep.over]
        for values in product(*(sweep.over[key] for key in keys)):
            expanded.append(vary(by_name[sweep.base], sweep.name, dict(zip(keys, values, strict=True))))
    return expanded


def vary(base: Arm, sweep: str, settings: dict[str, Any]) -> Arm:
    """Return the base arm with these settings, named after them: scaler_init_scale-2e24_growth_interval-5.

    Raises:
        ValueError: the settings make no arm.
    """
    arm = base.model_dump()
    changes = dict(settings)
    for key in OF_THE_ARM:
        if key in changes:
            arm[key] = changes.pop(key)
    if changes:
        arm["loss_scaling"] = vary_loss_scaling(base, changes)
    try:
        Arm.model_validate(
            arm
        )  # first under the base's name, so that a bad value is called a bad value, not a bad name
        arm["name"] = "_".join([sweep, *(f"{key}-{short(value)}" for key, value in settings.items())])
        return Arm.model_validate(arm)
    except ValidationError as error:
        _, line = explain(error, arm, Arm)[0]
        raise ValueError(f"sweeps[{sweep}].over: {line}") from None


def vary_loss_scaling(base: Arm, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the base's loss scaling with these changes; a change of kind drops what belonged to the old one."""
    scaling = base.loss_scaling.model_dump() if base.loss_scaling else {"kind": "dynamic"}
    if changes.get("kind", scaling["kind"]) != scaling["kind"]:
        scaling = {}
    return scaling | changes


def short(value: Any) -> str:
    """Return a value as it stands in a name: powers of two beyond 512 either way as 2e24 or 2e-24, the rest as written."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        mantissa, exponent = math.frexp(value)
        if mantissa == 0.5 and abs(exponent - 1) > 9:
            return f"2e{exponent - 1}"
    if not isinstance(value, float):
        return str(value)
    digits, _, exponent_text = repr(value).removesuffix(".0").replace("+", "").partition("e")
    if not exponent_text:
        return digits
    # 2 x 10^24 is 2.0e24, for 2e24 stands for 2^24
    return f"{digits if '.' in digits else digits + '.0'}e{exponent_text}"
