"""A sealed record is whole, of one spec, and as it was written; anything else is refused by name."""

import json

import pytest

from halfscale.study.identity import Spec
from halfscale.study.records import RecordError
from halfscale.study.sealed import Sealed, read_sealed, write_sealed


class Number(Spec):
    value: int


class Found(Sealed):
    result: int


SPEC = Number(value=1)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "found.json"
    write_sealed(Found(spec_hash=SPEC.hash, result=2), path)
    return path


def test_what_was_written_is_read(path):
    assert read_sealed(path, Found, SPEC).result == 2


def test_a_changed_record_is_refused(path):
    path.write_text(path.read_text().replace('"result": 2', '"result": 3'))
    with pytest.raises(RecordError, match=r"found\.json: is not what was written"):
        read_sealed(path, Found, SPEC)


def test_a_record_of_another_spec_is_refused(path):
    with pytest.raises(RecordError, match=r"found\.json: belongs to another spec"):
        read_sealed(path, Found, Number(value=2))


@pytest.mark.parametrize("cut", ["half", "mark", "bytes"])
def test_a_record_that_is_not_whole_is_refused(path, cut):
    text = path.read_text()
    values = json.loads(text)
    values["mark"] = "half"
    path.write_bytes({"half": text[:40].encode(), "mark": json.dumps(values).encode(), "bytes": b"\xff\xfe"}[cut])
    with pytest.raises(RecordError, match=r"found\.json: is no whole record"):
        read_sealed(path, Found, SPEC)


def test_a_record_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"none\.json: cannot be read"):
        read_sealed(tmp_path / "none.json", Found, SPEC)
