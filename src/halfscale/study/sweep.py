"""A sweep: a factorial of arms written as one config entry."""

from itertools import product
from typing import Annotated, Any

from pydantic import Field

from halfscale.study.arm import Arm, DynamicLossScaling, StaticLossScaling
from halfscale.study.model import Model, Name

LOSS_SCALING_KEYS = sorted((DynamicLossScaling.model_fields | StaticLossScaling.model_fields).keys())
KEYS = ["precision", *LOSS_SCALING_KEYS]


class Sweep(Model):
    """A factorial of arms over precision or any loss-scaling key, each a copy of the base arm but for these."""

    name: Name
    base: Name
    """The arm that supplies every other setting."""
    over: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]


def expand_sweeps(arms: list[Arm], sweeps: list[Sweep]) -> list[Arm]:
    """Return the arms followed by every arm of every sweep, in config order.

    Raises:
        ValueError: a sweep's base is no arm, or it sweeps over a key that arms do not have.
    """
    by_name = {arm.name: arm for arm in arms}
    expanded = list(arms)
    for sweep in sweeps:
        if sweep.base not in by_name:
            raise ValueError(f"sweep {sweep.name!r}: base {sweep.base!r} is no arm; allowed: {', '.join(by_name)}")
        for key in sweep.over:
            if key not in KEYS:
                raise ValueError(f"sweep {sweep.name!r}: over has the unknown key {key!r}; allowed: {', '.join(KEYS)}")
        for values in product(*sweep.over.values()):
            expanded.append(vary(by_name[sweep.base], sweep.name, dict(zip(sweep.over, values, strict=True))))
    return expanded


def vary(base: Arm, prefix: str, settings: dict[str, Any]) -> Arm:
    """Return the base arm with these settings, named after them: scaler_init_scale-2e24_growth_interval-5."""
    arm = base.model_dump()
    scaling = (base.loss_scaling or base.effective_loss_scaling).model_dump()
    for key, value in settings.items():
        if key == "precision":
            arm["precision"] = value
        else:
            scaling[key] = value
    arm["loss_scaling"] = scaling
    arm["name"] = "_".join([prefix, *(f"{key}-{short(value)}" for key, value in settings.items())])
    return Arm.model_validate(arm)


def short(value: Any) -> str:
    """Return a value as it stands in a name: powers of two above 512 as 2e10, the rest as written."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 512:
        mantissa, exponent = float(value).hex().split("p")
        if mantissa.rstrip("0") == "0x1.":
            return f"2e{int(exponent)}"
    return f"{value:g}" if isinstance(value, float) else str(value)
