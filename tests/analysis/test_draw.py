import ast
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zlib
from importlib.metadata import version
from pathlib import Path

import pytest
from made_up_comparisons import write_tables_of_comparisons
from made_up_dtypes import write_tables_of_dtypes
from made_up_gradients import write_tables_of_a_probe
from made_up_practices import write_tables_of_practices
from made_up_predictions import make_memory_record, make_roofline_record
from made_up_timings import make_record, make_steps, make_timing_spec

from halfscale.analysis.collect import collect, write_csv
from halfscale.analysis.draw import draw_figure
from halfscale.analysis.figures import FIGURE_FILES, FIGURES, figure_inputs, figure_names
from halfscale.analysis.memory import largest_table, memory_table
from halfscale.analysis.roofline import roofline_table
from halfscale.analysis.samples import write_sample_tables
from halfscale.analysis.tables import write_tables
from halfscale.analysis.throughput import block_table, throughput_table
from halfscale.study.records import RecordError

NAMES = [
    "distance_from_fp32",
    "equivalence",
    "final_gap",
    "gradient_exponents",
    "largest_batch",
    "loss_by_arm",
    "lost_updates",
    "lr_sensitivity",
    "memory_by_batch",
    "operating_window",
    "output_dtypes",
    "practices",
    "predicted_skips",
    "predicted_speedup",
    "scale_trajectory",
    "skips_by_cause",
    "speedup",
    "step_phases",
    "survival",
]


@pytest.fixture(scope="module")
def study(finished_study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "drawn"
    shutil.copytree(finished_study, folder)
    collect(folder)
    write_tables(folder)
    write_sample_tables(folder)
    write_tables_of_a_probe(folder)
    write_tables_of_practices(folder)
    write_tables_of_comparisons(folder)
    write_tables_of_dtypes(folder)
    record, steps = make_record(make_timing_spec()), make_steps()
    write_csv(folder / "tables/throughput.csv", throughput_table(record, steps))
    write_csv(folder / "tables/throughput_blocks.csv", block_table(record, steps))
    write_csv(folder / "tables/memory.csv", memory_table(make_memory_record()))
    write_csv(folder / "tables/largest_batch.csv", largest_table(make_memory_record()))
    write_csv(folder / "tables/roofline.csv", roofline_table(make_roofline_record()))
    return folder


@pytest.fixture(scope="module")
def drawn_twice(study, tmp_path_factory):
    """Every figure, drawn by two processes at once that share a new font cache, and hash strings differently.

    The second has of the study nothing but the files that a figure's sidecar will name.
    """
    start = "import sys; from pathlib import Path; from halfscale.analysis.draw import draw_figure\n"
    scripts = [
        f"{start}for name in {NAMES}: draw_figure(name, Path(sys.argv[1]))",
        f"{start}for name in {NAMES}: draw_figure(name, Path(sys.argv[1]) / 'apart' / name)",
    ]
    cache = tmp_path_factory.mktemp("matplotlib")
    copies, processes = [], []
    for seed, script in zip(("1", "2"), scripts, strict=True):
        copy = tmp_path_factory.mktemp("results") / "study"
        shutil.copytree(study, copy, ignore=shutil.ignore_patterns("runs"))
        for name in NAMES:
            for file in (*figure_inputs(name), "environments.json"):
                (copy / "apart" / name / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(study / file, copy / "apart" / name / file)
        environment = os.environ | {"PYTHONHASHSEED": seed, "MPLCONFIGDIR": str(cache), "PYTHONWARNINGS": "error"}
        processes.append(subprocess.Popen([sys.executable, "-c", script, str(copy)], env=environment))
        copies.append(copy)
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    first, second = copies
    (second / "figures").mkdir()
    for name in NAMES:
        for path in (second / "apart" / name / "figures").iterdir():
            path.rename(second / "figures" / path.name)
    return [first / "figures", second / "figures"]


def test_the_figures_are_the_files_of_their_folder():
    assert figure_names() == NAMES
    assert all((FIGURES / f"{name}.py").is_file() for name in NAMES)


def test_the_names_are_had_without_matplotlib():
    """The Snakefile asks for them each time it is parsed."""
    code = "import sys; from halfscale.analysis.figures import figure_names; figure_names(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"matplotlib", "seaborn", "torch"}.isdisjoint(loaded)


def test_an_unknown_figure_is_refused_by_name(study):
    with pytest.raises(ValueError, match=r"figure 'scale' is unknown; allowed: distance_from_fp32, equivalence, "):
        draw_figure("scale", study)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_parallel_rebuilds_are_the_same_bytes(drawn_twice, name):
    first, second = drawn_twice
    assert sorted(path.name for path in first.iterdir()) == sorted(
        f"{one}.{suffix}" for one in NAMES for suffix in ("pdf", "png", "json", "rst")
    )
    for suffix in ("pdf", "png", "rst"):
        assert (first / f"{name}.{suffix}").read_bytes() == (second / f"{name}.{suffix}").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_pdf_has_type_42_fonts_and_no_date(drawn_twice, name):
    pdf = (drawn_twice[0] / f"{name}.pdf").read_bytes()
    assert b"/Type3" not in pdf
    # Type 42 is how TrueType is embedded: FontFile2 holds the font program.
    assert pdf.count(b"/Subtype /Type0") + pdf.count(b"/Subtype /CIDFontType2") > 0 or b"/Subtype /TrueType" in pdf
    assert b"/FontFile2" in pdf
    assert b"CreationDate" not in pdf
    fonts = {font.split(b"+")[-1] for font in re.findall(rb"/BaseFont /([^\s/]+)", pdf)}
    assert fonts <= {b"DejaVuSans", b"DejaVuSans-Bold", b"DejaVuSans-Oblique"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_png_is_as_wide_as_the_text_at_200_dots_an_inch(drawn_twice, name):
    png = (drawn_twice[0] / f"{name}.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") == 1300
    chunk = png.index(b"pHYs")
    assert int.from_bytes(png[chunk + 4 : chunk + 8], "big") == round(200 / 0.0254)  # dots a metre
    assert zlib.crc32(png[-8:-4]) == int.from_bytes(png[-4:], "big")  # the file is whole to its end


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_sidecar_says_what_the_figure_shows_and_where_it_comes_from(drawn_twice, study, name):
    folder = drawn_twice[0]
    sidecar = json.loads((folder / f"{name}.json").read_text())
    source = (FIGURES / f"{name}.py").read_text()
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in {"TITLE", "CAPTION", "INPUTS"}
    }
    assert sidecar["title"] == constants["TITLE"]
    assert sidecar["caption"].startswith(constants["CAPTION"])
    assert sidecar["inputs"] == [
        {"file": file, "sha256": hashlib.sha256((study / file).read_bytes()).hexdigest()}
        for file in constants["INPUTS"]
    ]
    assert sidecar["script"] == f"src/halfscale/analysis/figures/{name}.py"
    assert sidecar["command"] == f"halfscale figure {folder.parent.name} {name}", (
        "no path that is of this machine alone"
    )
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", sidecar["commit"])
    assert isinstance(sidecar["clean"], bool)
    assert sidecar["devices"] == ["Made-up CPU"]
    assert sidecar["runs"] == {
        "commits": ["0123456789abcdef0123456789abcdef01234567"],
        "clean": True,
        "torch": ["2.14.1"],
    }
    packages = ("halfscale", "matplotlib", "numpy", "pandas", "pyarrow", "seaborn")
    assert sidecar["versions"] == {"python": platform.python_version()} | {name: version(name) for name in packages}
    assert set(constants["CAPTION"]).isdisjoint("\\$_^&#{}~"), "a caption goes through LaTeX, HTML and JSON as it is"


def test_the_command_is_one_that_a_shell_takes(study, tmp_path, monkeypatch):
    shutil.copytree(study, tmp_path / "results" / "a study", ignore=shutil.ignore_patterns("runs"))
    monkeypatch.chdir(tmp_path)
    for folder in (Path("results/a study"), tmp_path / "results" / "a study"):
        draw_figure("skips_by_cause", folder)
        sidecar = json.loads((folder / "figures/skips_by_cause.json").read_text())
        assert sidecar["command"] == "halfscale figure 'results/a study' skips_by_cause"


def test_without_a_word_of_where_the_runs_were_computed_nothing_is_drawn(study, tmp_path):
    shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs"))
    (tmp_path / "study" / "environments.json").unlink()
    with pytest.raises(RecordError, match=r"environments\.json: cannot be read: .* `halfscale collect` writes it"):
        draw_figure("skips_by_cause", tmp_path / "study")


def test_a_figure_that_cannot_be_drawn_leaves_nothing(study, tmp_path):
    shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs"))
    (tmp_path / "study/tables/gaps.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"gaps\.csv"):
        draw_figure("final_gap", tmp_path / "study")
    assert not (tmp_path / "study/figures").exists()


def test_what_a_killed_drawing_left_is_removed_by_the_next(study, tmp_path):
    shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs"))
    figures = tmp_path / "study" / "figures"
    figures.mkdir()
    for name in ("skips_by_cause", "final_gap"):
        for suffix in FIGURE_FILES:
            (figures / f".{name}.{suffix}.0123abcd.tmp.{suffix}").write_bytes(b"half of it")
    draw_figure("skips_by_cause", tmp_path / "study")
    assert sorted(path.name for path in figures.iterdir()) == sorted(
        [f"skips_by_cause.{suffix}" for suffix in FIGURE_FILES]
        + [f".final_gap.{suffix}.0123abcd.tmp.{suffix}" for suffix in FIGURE_FILES]  # whose own job removes them
    )


def test_a_matplotlibrc_of_the_machine_changes_nothing(study, tmp_path):
    import matplotlib as mpl

    shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs"))
    draw_figure("skips_by_cause", tmp_path / "study")
    before = (tmp_path / "study/figures/skips_by_cause.pdf").read_bytes()
    with mpl.rc_context({"axes.titlesize": 30, "pdf.fonttype": 3, "lines.linewidth": 9}):
        draw_figure("skips_by_cause", tmp_path / "study")
        assert mpl.rcParams["pdf.fonttype"] == 3  # and the caller's settings come back
    assert (tmp_path / "study/figures/skips_by_cause.pdf").read_bytes() == before


def test_a_caption_goes_on_with_what_is_true_of_this_study_s_figure(study, tmp_path, monkeypatch):
    from halfscale.analysis.figures import skips_by_cause

    shutil.copytree(study, tmp_path / "study", ignore=shutil.ignore_patterns("runs"))
    monkeypatch.setattr(skips_by_cause, "MOST_ARMS", 4)
    draw_figure("skips_by_cause", tmp_path / "study")
    caption = json.loads((tmp_path / "study/figures/skips_by_cause.json").read_text())["caption"]
    assert (tmp_path / "study/figures/skips_by_cause.rst").read_text() == f"{caption}\n"  # the HTML report's
    assert caption == (
        f"{skips_by_cause.CAPTION} Not all arms are shown but 2 of 4 of resnet50, 2 of 5 of transformer: "
        "thinned evenly in the order of the config; tables/arms.csv has all."
    )
