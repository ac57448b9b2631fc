"""The halfscale command: each subcommand parses, calls one function, and prints what it wrote.

Imports that take time stand inside the subcommands, so that --help comes at once.
"""

import gc
import sys
import traceback

from halfscale.cli import configure, measure, report
from halfscale.cli.app import app
from halfscale.errors import UserError

__all__ = ["app", "configure", "main", "measure", "report"]


def main() -> None:
    """Run the command. What a user can mend is told in a line; the traceback of code of their own comes before it."""
    # Looking for garbage among all that torch imports, at the start and once more at the end, takes over a second.
    gc.set_threshold(100_000)
    try:
        app()
    except (UserError, OSError) as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        print(f"halfscale: {error}", file=sys.stderr)
        sys.exit(1)
    except MemoryError as error:  # of NumPy, which makes the batches
        print(f"halfscale: memory is short: {error}; allowed: batches that fit", file=sys.stderr)
        sys.exit(1)
    finally:
        gc.freeze()
