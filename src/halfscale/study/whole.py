"""Files that are whole or not there: written under a temporary name, then renamed into place."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes that name at once, on any error it is removed.

    Two writers of one path never see each other's file; the last to finish wins.

    Raises:
        OSError: the folder cannot be made, or the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # a rename must not outrun the bytes it names
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file, UTF-8 with \\n line ends on every system."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
