"""Tables, figure, text and numbers of output dtypes, on a net whose dtypes are known."""

import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from figure_checks import check_readable
from made_up_dtypes import DEVICES, PRECISIONS, made_up_pass, make_record, output, unavailable, write_tables_of_dtypes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.text import Text
from typeset import typeset

from halfscale.analysis import style
from halfscale.analysis.claims_tables import write_claims_tables
from halfscale.analysis.collect import collect
from halfscale.analysis.figures import output_dtypes as drawn
from halfscale.analysis.macros import output_dtypes_values
from halfscale.analysis.output_dtypes import (
    Tables,
    describe_output_dtypes,
    make_tables,
    operations_tex,
    outputs_tex,
    read_output_dtypes_tables,
)
from halfscale.analysis.prose import NOTHING, Measured, experiments
from halfscale.analysis.prose.output_dtypes import output_dtypes as prose
from halfscale.analysis.published import write_published_tables
from halfscale.analysis.samples import write_sample_tables
from halfscale.analysis.tables import write_tables
from halfscale.study.passes import OutputDtypesRecord


@pytest.fixture
def tables() -> Tables:
    return make_tables({"net": make_record()})


def draw(folder: Path, **records: OutputDtypesRecord) -> Figure:
    write_tables_of_dtypes(folder, **records)
    with mpl.rc_context(style.RC):
        figure = drawn.draw(folder)
        figure.draw_without_rendering()
        check_readable(figure)
    return figure


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def test_each_output_has_its_row_on_each_device_in_each_precision(tables: Tables) -> None:
    assert len(tables.outputs) == 6 * 2 * 3
    own = tables.outputs.query("device == 'cuda' and precision == 'fp16'")
    assert own["module"].tolist() == ["first", "norm", "shared", "shared", "(model)", "(model)"]
    assert own["call"].tolist() == [1, 1, 1, 2, 1, 1]
    assert own["dtype"].tolist() == ["float16", "float32", "float16", "float16", "int64", "float32"]
    assert own["between"].tolist() == [False, True, False, False, False, False]
    assert own["differs"].tolist() == [False, True, False, False, False, False]


def test_passes_count_what_outputs_say(tables: Tables) -> None:
    counts = tables.passes.set_index(["device", "precision"])[
        ["outputs", "half", "fp32", "other", "between", "differs"]
    ]
    assert counts.loc[("cpu", "bf16")].tolist() == [6, 4, 1, 1, 0, 1]
    assert counts.loc[("cuda", "bf16")].tolist() == [6, 3, 2, 1, 1, 1]
    assert counts.loc[("cuda", "fp32")].tolist() == [6, 0, 5, 1, 0, 0]
    assert set(tables.passes["gradients"]) == {"float32 6"}


def test_operations_stand_side_by_side(tables: Tables) -> None:
    assert tables.operations.set_index(["operation", "precision"])["differs"].to_dict() == {
        ("linear", "bf16"): False,
        ("layer_norm", "bf16"): True,
        ("linear", "fp16"): False,
        ("layer_norm", "fp16"): True,
    }


def test_tables_come_back_as_they_were_written(tables: Tables, tmp_path: Path) -> None:
    """Modules of an nn.Sequential are called 0, 1.10 and so on, and must stay text."""
    outputs = [output("1.10", "Linear", "float32"), output("1.1", "Linear", "float32")]
    passes = [made_up_pass("cpu", "fp32", outputs=outputs, never_called=["0"])]
    for record in (make_record(), make_record(passes)):
        write_tables_of_dtypes(tmp_path, net=record)
        for made, read in zip(make_tables({"net": record}), read_output_dtypes_tables(tmp_path), strict=True):
            assert made.astype(object).fillna("").equals(read.astype(object).fillna(""))


def test_what_only_one_pass_calls_stands_where_it_has_it_and_differs() -> None:
    """As of a model that looks at the dtype of what it gets."""
    on_cpu, on_cuda = (made_up_pass(device, "fp16") for device in DEVICES)
    more = [*on_cuda.outputs[:2], output("norm", "clamp", "float32", function=True), *on_cuda.outputs[2:]]
    table = make_tables({"net": make_record([on_cpu, on_cuda.model_copy(update={"outputs": more})])}).outputs
    in_order = table.sort_values("order").drop_duplicates("order")
    assert in_order["kind"].tolist() == ["Linear", "LayerNorm", "clamp", "Linear", "Linear", "argmax", "cross_entropy"]
    assert table.loc[table["kind"] == "clamp", "differs"].tolist() == [True]


def test_a_pass_that_is_not_to_be_had_is_compared_with_nothing(tmp_path: Path) -> None:
    record = make_record([*(made_up_pass("cpu", precision) for precision in PRECISIONS), *map(unavailable, PRECISIONS)])
    tables = make_tables({"net": record})
    assert tables.outputs["differs"].isna().all()
    assert tables.passes["differs"].isna().all()
    text = prose(tables)
    assert "Not to be had, in whole or in part: FP32 on CUDA, BF16 on CUDA and FP16 on CUDA" in text
    assert "16-bit outputs are \\val{output_dtypes.net.cpu.bf16.half}" in text
    assert "Another dtype on CUDA" not in text
    assert "output_dtypes.net.cuda" not in text
    assert "LayerNorm & $1$ & BF16 & -- & FP16 & -- " in outputs_tex(tables.outputs)
    figure = draw(tmp_path, net=record)
    assert texts(figure).count("4 of 6") == 2
    assert "FP16 CUDA" in texts(figure)


def test_nothing_at_all_is_drawn_as_no_data(tmp_path: Path) -> None:
    record = make_record([unavailable("fp16")]).model_copy(update={"rulings": []})
    assert texts(draw(tmp_path, net=record)).count("no data") == 2
    assert "known of one device only" in prose(make_tables({"net": record}))
    assert "DataDependentOutputException" in describe_output_dtypes("net", record)


def test_the_figure_has_a_strip_a_device_and_precision(tmp_path: Path) -> None:
    figure = draw(tmp_path)
    strips, kinds, operations = (ax.findobj(QuadMesh)[0].get_array().filled(0) for ax in figure.axes)
    fp32, bf16, fp16, other, differs = 1, 2, 3, 4, 5
    assert strips.tolist() == [
        [fp32, fp32, fp32, fp32, other, fp32],
        [fp32, fp32, fp32, fp32, other, fp32],
        [bf16, bf16, bf16, bf16, other, fp32],
        [bf16, fp32, bf16, bf16, other, fp32],
        [fp16, fp16, fp16, fp16, other, fp32],
        [fp16, fp32, fp16, fp16, other, fp32],
        [0, differs, 0, 0, 0, 0],
    ]
    assert np.argmax(kinds, axis=0).tolist() == [0, 1, 0, 0, 2, 3]
    assert operations.tolist() == [[bf16, bf16], [bf16, fp32], [fp16, fp16], [fp16, fp32]]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[:3] == ["FP32 CPU", "FP32 CUDA, predicted", "BF16 CPU"]


def test_a_large_model_of_many_kinds_is_drawn_readably(tmp_path: Path) -> None:
    """A thousand outputs of twenty kinds: the rarest share a row, and no name is written where it has no room."""
    outputs = [
        output(f"a_long_name_of_a_part{index // 40}.{index}", f"KindOfModuleWithQuiteALongName{index % 20}", "float16")
        for index in range(1000)
    ]
    passes = [made_up_pass(device, "fp16", outputs=outputs) for device in DEVICES]
    figure = draw(tmp_path, large=make_record(passes))
    rows = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert len(rows) == drawn.MOST_KINDS
    assert rows[-1] == "all others"
    assert figure.axes[0].get_xlim() == (0, 1000)


@pytest.mark.parametrize(
    ("modules", "stages"),
    [
        (["stem", "blocks.0.norm", "blocks.1.norm", "(model)"], ["stem", "blocks.0", "blocks.1", ""]),
        ([f"layer.{index}.norm" for index in range(13)], ["layer"] * 13),
        (["0", "1.10"], ["0", "1.10"]),
    ],
)
def test_parts_of_a_model_are_lists_entries_where_these_are_few(modules: list[str], stages: list[str]) -> None:
    assert drawn.stages_of(modules) == stages


def test_the_text_says_what_the_tables_say_and_every_number_of_it_is_a_macro(tables: Tables) -> None:
    text = prose(tables)
    assert text.count("16-bit outputs are") == 1  # the same in both precisions
    assert "Under BF16 and FP16 autocast" in text
    assert r"of \val{output_dtypes.net.cuda.bf16.outputs} on CUDA, as predicted" in text
    assert r"FP32 between 16-bit outputs: one of \code{LayerNorm}." in text
    assert (
        r"Another dtype on CUDA than on the CPU: \val{output_dtypes.net.cpu.bf16.differs} in BF16 and "
        r"\val{output_dtypes.net.cpu.fp16.differs} in FP16, of \code{LayerNorm}." in text
    )
    assert "The gradients of all parameters are FP32 in every precision, on the CPU and CUDA." in text
    assert r"are 16-bit on the CPU and FP32 on CUDA: \code{layer\_norm}." in text
    keys = [part.split("}")[0] for part in text.split(r"\val{")[1:]]
    values = dict(output_dtypes_values(tables))
    assert set(keys) <= values.keys()
    assert values["output_dtypes.net.cpu.fp16.half"] == "$4$"
    assert values["output_dtypes.net.cuda.fp16.half"] == "$3$"
    assert (values["autocast_operations.fp16.tried"], values["autocast_operations.fp16.differs"]) == ("$2$", "$1$")


def test_the_text_of_a_model_with_oddities() -> None:
    passes = [
        made_up_pass(device, "fp16", never_called=["spare_head", "b"], gradients={"float32": 5, "none": 1}, outputs=[])
        for device in DEVICES
    ]
    text = prose(make_tables({"net": make_record(passes)}))
    assert r"Never called: \code{spare\_head} and \code{b}." in text
    assert "The gradients of parameters that get one are FP32" in text
    assert "No output is FP32 between 16-bit ones." in text


def test_latex_counts_by_kind(tables: Tables) -> None:
    lines = outputs_tex(tables.outputs).splitlines()
    assert r"Linear & $3$ & BF16 & BF16 & FP16 & FP16 \\" in lines
    assert r"LayerNorm & $1$ & BF16 & FP32 & FP16 & FP32 \\" in lines
    mixed = [
        made_up_pass("cpu", "fp16", outputs=[output("a", "Add", "float16"), output("b", "Add", "float32", "int64")])
    ]
    table = make_tables({"net": make_record(mixed)}).outputs
    assert r"Add & $2$ & -- & -- & FP16 (1),\newline FP32, int64 (1) & -- \\" in outputs_tex(table).splitlines()
    differ, agree = operations_tex(tables.operations).split(r"\textit{CPU and CUDA agree}")
    assert r"layer\_\allowbreak{}norm & BF16 & FP32 & FP16 & FP32" in differ
    assert "linear & BF16 & BF16 & FP16 & FP16" in agree


def test_latex_tables_fit_the_page(tmp_path: Path) -> None:
    """Whatever a user calls a class, and however many dtypes one kind gives."""
    kinds = ["Odd_" + "WithoutEnd" * 8, "Mixed", "Mixed", "Mixed"]
    mixed = [["float16"], ["float16", "bfloat16", "int64"], ["float32", "uint8"], []]
    outputs = [
        output(f"m{index}", kind, *dtypes) for index, (kind, dtypes) in enumerate(zip(kinds, mixed, strict=True))
    ]
    passes = [made_up_pass(device, precision, outputs=outputs) for device in DEVICES for precision in PRECISIONS]
    tables = make_tables({"50%_net": make_record(passes), "net": make_record()})
    typeset(outputs_tex(tables.outputs) + operations_tex(tables.operations), tmp_path)


def test_the_section_stands_before_the_results_and_its_tables_with_the_others(
    finished_study: Path, tmp_path: Path, tables: Tables
) -> None:
    folder = Path(shutil.copytree(finished_study, tmp_path / "study"))
    collect(folder)
    write_tables(folder)
    write_sample_tables(folder)
    write_published_tables(folder)
    write_claims_tables(folder)
    measured = replace(Measured.read(folder), samples=None)
    without, found = experiments(measured), experiments(replace(measured, dtypes=tables))
    assert without["treatments"] == without["experiments"] == without["experiment_tables"] == NOTHING
    assert found["treatments"] == "\\input{sections/output_dtypes}\n"
    assert found["experiments"] == NOTHING
    assert found["experiment_tables"] == "\\input{tables/output_dtypes}\n"
    assert found["output_dtypes"] == prose(tables)
