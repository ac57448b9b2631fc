"""Words, numbers and lists of a sentence."""

import pytest

from halfscale.analysis.prose.words import code, codes, counted, listed, of_all, percent, val


@pytest.mark.parametrize(
    ("items", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_listed(items, text):
    assert listed(items) == text


def test_listed_with_semicolons_sets_long_items_apart():
    assert listed(["a, x", "b, y"], "; ") == "a, x; and b, y"


def test_a_list_that_nobody_would_read_names_a_few_and_counts_the_others():
    assert listed("abcdefghijkl") == "a, b, c, d, e, f, g, h, i, j, k and l"
    assert listed("abcdefghijklm") == "a, b, c, d, e, f and 7 others"
    assert listed("abcdefghijklm", "; ") == "a; b; c; d; e; f; and 7 others"


def test_counted():
    assert [counted(number, "run") for number in (0, 1, 2, 13)] == ["no runs", "one run", "two runs", "13 runs"]


def test_of_all():
    assert of_all(1, 3) == "one of the three runs"
    assert [of_all(total, total) for total in (1, 2, 3)] == ["the one run", "both runs", "all three runs"]


def test_names_are_escaped_in_text_and_left_alone_in_keys():
    assert code("a_b") == r"\code{a\_b}"
    assert codes(["a_b", "c"]) == r"\code{a\_b} and \code{c}"
    assert val("w", "a_b", "gap") == r"\val{w.a_b.gap}"


def test_a_name_of_one_long_piece_is_breakable():
    assert code("a" * 17) == rf"\code{{{'a' * 16}\allowbreak{{}}a}}"
    assert code("a" * 16 + "-b") == rf"\code{{{'a' * 16}-b}}"


def test_percent():
    assert percent(0.125) == r"$12.5$\,\%"
