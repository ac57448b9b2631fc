import os
import signal
import subprocess
import sys

import pytest

from halfscale.study.whole import WriteError, remove_unfinished, whole_file, write_text

KILLED = """
import sys, time
from pathlib import Path
from halfscale.study.whole import whole_file
with whole_file(Path(sys.argv[1])) as temporary:
    temporary.write_text("half of it")
    print("writing", flush=True)
    time.sleep(60)
"""


def write_half(path, error):
    with whole_file(path) as temporary:
        temporary.write_text("half of it")
        raise error


def test_text_is_written_whole_in_a_folder_made_for_it(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_text(path, "café\n")
    assert path.read_bytes() == b"caf\xc3\xa9\n"
    assert os.listdir(path.parent) == ["b.txt"]


def test_the_temporary_file_is_beside_the_final_one_with_its_suffix(tmp_path):
    path = tmp_path / "figure.pdf"
    with whole_file(path) as temporary:
        temporary.write_text("drawn")
        assert (temporary.parent, temporary.suffix) == (tmp_path, ".pdf")
        assert not path.exists()
    assert path.read_text() == "drawn"


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "a.txt", KeyboardInterrupt)
    assert os.listdir(tmp_path) == []


def test_an_exception_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError):
        write_half(path, ZeroDivisionError)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_nothing_written_is_an_error(tmp_path):
    with pytest.raises(WriteError, match=r"a\.txt: cannot be written"), whole_file(tmp_path / "a.txt"):
        pass
    assert os.listdir(tmp_path) == []


def test_two_writers_never_see_each_others_file(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as first:
        first.write_text("first")
        with whole_file(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"


def test_sigkill_leaves_nothing_under_the_final_name(tmp_path):
    path = tmp_path / "a.txt"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not path.exists()
    assert len(os.listdir(tmp_path)) == 1  # what was being written, under a name that nobody reads
    write_text(path, "whole")
    assert path.read_text() == "whole"
    remove_unfinished(path)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_is_removed_as_unfinished_is_of_that_file_alone(tmp_path):
    others = [".b.txt.0123abcd.tmp.txt", ".a[1].pdf.0123abcd.tmp.pdf", ".a1.txt.0123abcd.tmp.txt", ".a[1].txt"]
    for name in [*others, ".a[1].txt.0123abcd.tmp.txt"]:
        (tmp_path / name).touch()
    remove_unfinished(tmp_path / "a[1].txt")
    assert sorted(os.listdir(tmp_path)) == sorted(others)


@pytest.mark.parametrize("blocked", ["out", "out/b.txt"])
def test_what_is_in_the_way_is_told_by_the_files_own_name(tmp_path, blocked):
    path = tmp_path / "out" / "b.txt"
    (tmp_path / blocked).mkdir(parents=True) if blocked.endswith(".txt") else (tmp_path / blocked).touch()
    with pytest.raises(WriteError, match=rf"^{path}: cannot be written: (Is a directory|File exists|Not a directory)$"):
        write_text(path, "text")


def write_on_a_full_disk(path):
    with whole_file(path) as temporary:
        temporary.touch()
        with open("/dev/full", "w") as full:
            full.write("new")


def test_a_full_disk_is_told_by_name_and_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(WriteError, match=rf"^{path}: cannot be written: No space left on device$"):
        write_on_a_full_disk(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_of_another_file_stays_its_own(tmp_path):
    other = tmp_path / "other.txt"
    with pytest.raises(FileNotFoundError, match=r"other\.txt") as caught, whole_file(tmp_path / "a.txt"):
        other.read_text()
    assert not isinstance(caught.value, WriteError)
