"""The colours of timed variants, by precision."""

import pandas as pd
import seaborn as sns

from halfscale.analysis.style import FAMILIES

FAMILY = {"fp32": "fp32", "tf32": "tf32", "bf16": "bf16", "fp16": "fp16 dynamic"}
"""By precision, the family of arms whose hue it takes."""


def variant_colours(variants: pd.DataFrame) -> dict[str, str]:
    """Return the colour of each variant by label: its precision's hue, and a shade of its own."""
    colours: dict[str, str] = {}
    for precision, own in variants.groupby("precision", sort=False):
        names = own["label"].unique().tolist()
        shades = sns.blend_palette(FAMILIES[FAMILY[str(precision)]], len(names)).as_hex()
        colours |= zip(names, shades, strict=True)
    return colours
