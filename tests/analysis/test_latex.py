"""Text is escaped once, small values are scientific, and what comes out is LaTeX that compiles."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typeset import typeset

from halfscale.analysis.latex import (
    Column,
    breakable,
    escape,
    flowing,
    interval,
    longtable,
    number,
    percent,
    scale,
    setting,
)

AWKWARD = "a_b 50% #1 & {x}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3e-8, r"$3.0\times10^{-8}$"),
        (-3e-8, r"$-3.0\times10^{-8}$"),
        (0.0, "$0$"),
        (-0.0, "$0$"),
        (0, "$0$"),
        (12345678, "$12345678$"),
        (1.0, "$1.00$"),
        (-2.2235, "$-2.22$"),
        (0.9996, "$1.00$"),
        (0.001, "$0.00100$"),
        (0.0009996, "$0.00100$"),
        (0.000999, r"$1.0\times10^{-3}$"),
        (12.345, "$12.3$"),
        (99999.0, r"$1.0\times10^{5}$"),
        (65504.0, "$65500$"),
        (1.5e30, r"$1.5\times10^{30}$"),
        (math.inf, r"$\infty$"),
        (-math.inf, r"$-\infty$"),
        (math.nan, "--"),
        (None, "--"),
    ],
)
def test_number(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (65536.0, "$2^{16}$"),
        (1.0, "$2^{0}$"),
        (2.0**-12, "$2^{-12}$"),
        (2.0**127, "$2^{127}$"),
        (1000.0, "$1000$"),
        (0.0, "$0$"),
        (math.inf, r"$\infty$"),
        (math.nan, "--"),
        (None, "--"),
    ],
)
def test_scale(value, text):
    assert scale(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.25, "$0.25$"),
        (2.0, "$2$"),
        (1e-4, "$0.0001$"),
        (1e-5, "$10^{-5}$"),
        (2.5e-8, r"$2.5\times10^{-8}$"),
        (math.nan, "--"),
    ],
)
def test_setting(value, text):
    assert setting(value) == text


def test_percent():
    assert percent(0.0347) == "$3.47$"
    assert percent(math.nan) == "--"


def test_interval():
    assert interval(-0.5, 2.0) == "$[-0.500, 2.00]$"
    assert interval(math.nan, math.nan) == "--"
    assert interval(-9.67e-8, 6.78e-9) == r"$[-9.7, 0.7]\times10^{-8}$"
    assert interval(-9.96e-8, 0.0) == r"$[-1.0, 0.0]\times10^{-7}$"


def test_escape():
    assert escape(AWKWARD) == r"a\_b 50\% \#1 \& \{x\}"
    assert escape("\\^~<>|$") == (
        r"\textbackslash{}\textasciicircum{}\textasciitilde{}\textless{}\textgreater{}\textbar{}\$"
    )
    assert escape("lr0.001") == "lr0.001"
    assert escape("a--b---c") == "a-{}-b-{}--c"


def test_a_breakable_name_prints_the_same_name():
    name = "scaler_init-2e24"
    assert breakable(name).replace(r"\allowbreak{}", "") == escape(name)
    assert breakable(name).count(r"\allowbreak{}") == 2


def test_a_name_of_one_long_piece_is_breakable_too():
    assert breakable("a" * 20 + "-b") == "a" * 16 + r"\allowbreak{}aaaa-\allowbreak{}b"


def test_a_table_of_awkward_cells_compiles(tmp_path):
    cells = [breakable(AWKWARD), number(3e-8), number(math.nan), number(math.inf), escape("lr0.001")]
    columns = [Column(escape(name), "(nats)", "r") for name in ("a&b", "b", "c", "d", "e")]
    table = longtable(columns, [(escape(AWKWARD), [cells] * 80)], caption=escape(AWKWARD), label="tab:awkward")
    row = r"a\_\allowbreak{}b 50\% \#1 \& \{x\} & $3.0\times10^{-8}$ & -- & $\infty$ & lr0.001 \\"
    assert table.count(row) == 80
    assert "(2 pages" in typeset(table, tmp_path)


def test_groups_are_parted_by_a_rule():
    columns = [Column("Arm", "", "l"), Column("Loss", "(nats)", "r")]
    table = longtable(columns, [("one", [["a", "$1$"]]), ("two", [["b", "$2$"]])], caption="c", label="tab:l")
    body = table[table.index(r"\endlastfoot") :].splitlines()
    assert body == [
        r"\endlastfoot",
        r"\multicolumn{2}{@{}l}{\textit{one}} \\*",
        r"a & $1$ \\",
        r"\midrule",
        r"\multicolumn{2}{@{}l}{\textit{two}} \\*",
        r"b & $2$ \\",
        r"\end{longtable}",
        r"\endgroup",
    ]


def test_an_empty_table_compiles(tmp_path):
    columns = [Column("Arm", "", "l"), Column("Loss", "(nats)", "r")]
    typeset(longtable(columns, [], caption="Nothing here", label="tab:none"), tmp_path)


@given(st.floats(1e-3, 9e4) | st.floats(-9e4, -1e-3))
def test_a_fixed_number_has_three_significant_digits(value):
    text = number(value).strip("$")
    assert float(text) == pytest.approx(value, rel=0.00501)
    assert len(text.lstrip("-0.").replace(".", "")) >= 3


def test_what_flows_in_a_sentence():
    assert flowing("50 % of a_b, 3e-08 nats.") == r"50 \% of a\_b, $3\times10^{-8}$ nats."
    assert flowing("an arm with `precision: bf16`.") == r"an arm with \texttt{\frenchspacing precision: bf16}."
    assert flowing("experiments.throughput") == r"experiments.\allowbreak{}throughput"
    assert (
        flowing("a-very-long-name-of-an-arm")
        == r"a-\allowbreak{}very-\allowbreak{}long-\allowbreak{}name-\allowbreak{}of-\allowbreak{}an-\allowbreak{}arm"
    )
