"""The timed variants: their table, and their colours by precision."""

from pathlib import Path

import pandas as pd
import seaborn as sns

from halfscale.analysis.figures._inputs import read_table
from halfscale.analysis.style import FAMILIES

FAMILY = {"fp32": "fp32", "tf32": "tf32", "bf16": "bf16", "fp16": "fp16 dynamic"}
"""By precision, the family of arms whose hue it takes."""


def read_variants(folder: Path) -> pd.DataFrame:
    """Read tables/throughput.csv."""
    return read_table(folder, "throughput")


def variant_colours(variants: pd.DataFrame) -> dict[str, str]:
    """Return the colour of each variant by label: its precision's hue, and a shade of its own."""
    colours: dict[str, str] = {}
    for precision, own in variants.groupby("precision", sort=False):
        names = own["label"].unique().tolist()
        shades = sns.blend_palette(FAMILIES[FAMILY[str(precision)]], len(names)).as_hex()
        colours |= zip(names, shades, strict=True)
    return colours
