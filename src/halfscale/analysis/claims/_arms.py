"""The arms that a claim is about, found by what they are and not by what they are called."""

import pandas as pd

from halfscale.analysis.claims._verdict import Tables
from halfscale.analysis.shown import rows_of

STOCK = {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000}
"""PyTorch's defaults of GradScaler."""


def plain_arms(tables: Tables, **settings: object) -> pd.DataFrame:
    """Return the rows of arms.csv with these settings of arms that differ from FP32 in precision and loss scaling alone.

    Arms at another learning rate, perturbed or injected ones, such with scales by layer or modules in FP32, and those whose
    precision the device does not have, are left out.
    """
    arms, known = tables["arms"], tables["settings"]
    own = known[known["case"] == ""]
    plain = own[
        (own["lr_factor"] == 1)
        & (own["perturb"] == "none")
        & (own["inject"] == "")
        & (own["fp32_modules"] == "")
        & (own["layer_scales"] == "")
    ]
    chosen = arms["arm"].isin(plain["arm"]) & ~arms["fell_back"].astype(bool)
    for name, value in settings.items():
        chosen &= arms[name] == value
    return arms[chosen]


def of_arms(table: pd.DataFrame, arms: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table whose workload and arm are among some of arms.csv."""
    return rows_of(table, set(zip(arms["workload"], arms["arm"], strict=True)))
