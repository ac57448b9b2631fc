"""The equivalence analysis: how large a difference in final loss still counts as none. No training run depends on it."""

from typing import Self

from pydantic import Field, model_validator

from halfscale.study.model import Model, Name


class Margin(Model):
    """How far from zero a mean gap may lie and still count as none, either way; of two bounds, the smaller."""

    nats: float | None = Field(default=None, gt=0)
    """In nats."""
    reference_sd: float | None = Field(default=None, gt=0)
    """In standard deviations of the reference's final losses over seeds."""

    @model_validator(mode="after")
    def is_bounded(self) -> Self:
        if self.nats is None and self.reference_sd is None:
            raise ValueError("no margin is given; allowed: nats, reference_sd or both")
        return self


class Equivalence(Model):
    """What counts as equivalent; fixed before the runs are looked at."""

    margin: Margin = Margin(nats=0.05)
    """The margin of every workload that has none of its own."""
    margin_of: dict[Name, Margin] = Field(default={})
    """By workload, a margin of its own."""
    alpha: float = Field(default=0.05, ge=0.0001, le=0.2)
    """Significance level of each family of tests, which is that of the comparisons of one workload."""
