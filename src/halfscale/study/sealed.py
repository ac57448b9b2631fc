"""Records of what an instrument found, one JSON file each: whole, of one spec, and as they were written."""

import hashlib
import json
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from halfscale.study.identity import Spec
from halfscale.study.model import Model
from halfscale.study.records import COMPLETE, RecordError
from halfscale.study.whole import write_text


class Sealed(Model):
    """A record with an end mark and a digest of its own."""

    spec_hash: str
    mark: Literal["halfscale-complete"] = COMPLETE
    sha256: str = ""
    """Of all the rest, set when it is written."""

    def digest(self) -> str:
        """Return the SHA-256 of all that the record says, in hex."""
        return hashlib.sha256(self.model_dump_json(exclude={"sha256"}).encode()).hexdigest()


AnySealed = TypeVar("AnySealed", bound=Sealed)


def write_sealed(record: Sealed, path: Path) -> None:
    """Write a record as strict JSON."""
    signed = record.model_copy(update={"sha256": record.digest()})
    write_text(path, json.dumps(signed.model_dump(), indent=1, allow_nan=False) + "\n")


def read_sealed(path: Path, kind: type[AnySealed], spec: Spec) -> AnySealed:
    """Read a record that belongs to this spec.

    Raises:
        RecordError: the file is missing, cut short, of another spec, or was changed.
    """
    try:
        record = kind.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, ValidationError):
        raise RecordError(f"{path}: is no whole record; delete it to have it made again") from None
    if record.spec_hash != spec.hash:
        raise RecordError(f"{path}: belongs to another spec; delete it to have it made again")
    if record.sha256 != record.digest():
        raise RecordError(f"{path}: is not what was written; delete it to have it made again")
    return record
