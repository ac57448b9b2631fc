"""Record the smoke study's losses and scales anew: run the study first, then this, and say why in the commit.

snakemake --cores all --configfile config/smoke.yaml
python tests/end_to_end/record_golden.py
"""

from pathlib import Path

import pandas as pd
from golden import record

record(pd.read_parquet(Path(__file__).parents[2] / "results" / "smoke" / "traces.parquet"))
