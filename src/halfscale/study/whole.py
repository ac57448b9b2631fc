"""Files that are whole or not there: written under a temporary name, then renamed into place."""

import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from halfscale.errors import UserError


class WriteError(UserError, OSError):
    """A file that cannot be written, as when the disk is full; the message names it."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes that name at once, on any error it is removed.

    Two writers of one path never see each other's file; the last to finish wins.

    Raises:
        WriteError: the folder cannot be made, the file cannot be written, or the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())  # a rename must not outrun the bytes it names
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.filename not in (None, *map(str, [temporary, *path.parents])):
            raise  # of another file, such as one that is read
        reason = os.strerror(error.errno) if error.errno else error
        raise WriteError(f"{path}: cannot be written: {reason}") from None


def remove_unfinished(path: Path) -> None:
    """Remove the temporary files of `path` that writers left which were killed. Call it where none can be at work."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp{glob.escape(path.suffix)}"):
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file, UTF-8 with \\n line ends on every system."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
