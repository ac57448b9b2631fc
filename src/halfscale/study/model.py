"""What every part of the config shares."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

ENDLESS = re.compile(r"(.+?)\1{19}$")
"""What Snakemake takes for a rule that feeds itself: an end that stands twenty times."""


def refuse_endless(name: str) -> str:
    """Return a name.

    Raises:
        ValueError: its end stands twenty times.
    """
    if ENDLESS.search(name):
        raise ValueError("its end stands twenty times or more; allowed: a name that does not repeat itself so often")
    return name


Name = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128),
    AfterValidator(refuse_endless),
]
# Positive and normal in FP32, the format that it is used in: smaller is zero there, larger infinite.
FP32 = Annotated[float, Field(ge=2.0**-126, le=2.0**127)]
Count = Annotated[int, Field(gt=0, lt=2**31)]


class Model(BaseModel):
    """A part of the config: unknown keys, wrong types, NaN and infinity are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
