"""Records of what an instrument found, one JSON file each: whole, of one spec, and as they were written."""

import hashlib
import json
from pathlib import Path
from typing import Literal, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from halfscale.study.identity import Spec
from halfscale.study.model import Model
from halfscale.study.records import COMPLETE, RecordError, sha256
from halfscale.study.whole import whole_file, write_text


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


def write_beside(table: pa.Table, spec: Spec, path: Path) -> str:
    """Write the rows that belong to a record as Parquet; return the SHA-256 of the file, which the record keeps."""
    with whole_file(path) as temporary:
        pq.write_table(table.replace_schema_metadata({"spec_hash": spec.hash, "mark": COMPLETE}), temporary)
        return sha256(temporary)


def read_beside(path: Path, digest: str) -> pd.DataFrame:
    """Read the rows that belong to a record.

    Args:
        path: of the Parquet file.
        digest: its SHA-256, as the record keeps it.

    Raises:
        RecordError: it is missing, or not what was written with the record.
    """
    try:
        found = sha256(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    if found != digest:
        raise RecordError(f"{path}: is not what was written with its record; delete it to have it made again")
    return pq.read_table(path).to_pandas()
