"""Claims about half precision on trial, one file each: a function from a study's tables to a verdict.

A claim is a module with STATEMENT (what is claimed, as it follows on `that`), RULE (by what it is judged, with the names
of the thresholds in it, written before a study is run), TABLES (files of tables/ that it reads), SHOWN (labels of the
paper's figure and table that show it) and judge(tables, thresholds), which returns a Verdict. A file is named as its claim,
with underscores. To put another claim on trial, add its file.

Results of a CPU and of CUDA are never pooled: a study's runs are of one of them, and a claim that reads what is predicted for
both says of which it speaks. Times of emulated formats are no evidence.
"""

import pkgutil
from pathlib import Path

from halfscale.analysis.constants import constant_of

CLAIMS = Path(__file__).parent


def claim_modules() -> list[str]:
    """Return the names of the modules of all claims, without importing them."""
    return sorted(f"{__name__}.{each.name}" for each in pkgutil.iter_modules([str(CLAIMS)]) if each.name[0] != "_")


def claim_name(module: str) -> str:
    """Return the name of the claim that a module judges."""
    return module.rpartition(".")[2].replace("_", "-")


def claim_tables() -> set[str]:
    """Return the names of the tables that any claim reads, from the sources: importing them would take seconds."""
    sources = (CLAIMS / f"{module.rpartition('.')[2]}.py" for module in claim_modules())
    return {table for source in sources for table in constant_of(source, "TABLES")}
