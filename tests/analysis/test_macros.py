"""Every key gives the same text in JSON and in LaTeX, and a key that is not there stops the paper."""

import json
import re
import shutil

import pytest
from made_up import DIVERGED, make_study_folder, write_run
from typeset import compile_latex, typeset

from halfscale.analysis.claims_tables import write_claims_tables
from halfscale.analysis.collect import collect, read_plan
from halfscale.analysis.macros import unique_keys, write_macros
from halfscale.analysis.published import write_published_tables
from halfscale.analysis.samples import write_sample_tables
from halfscale.analysis.tables import write_tables
from halfscale.study.records import read_trace
from halfscale.study.runs import member_specs


def make_macros(folder):
    collect(folder)
    write_tables(folder)
    write_sample_tables(folder)
    write_published_tables(folder)
    write_claims_tables(folder)
    write_macros(folder)
    return json.loads((folder / "paper" / "macros.json").read_text())


@pytest.fixture(scope="module")
def study(finished_study, tmp_path_factory):
    folder = shutil.copytree(finished_study, tmp_path_factory.mktemp("macros") / "made-up")
    make_macros(folder)
    return folder


@pytest.fixture
def values(study):
    return json.loads((study / "paper" / "macros.json").read_text())


def test_study_values(values):
    expected = {
        "name": "made-up",
        "reference": "fp32",
        "seeds": "$3$",
        "workloads": "$2$",
        "arms": "$10$",
        "runs": "$57$",
        "diverged": f"${sum(map(len, DIVERGED.values()))}$",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "clean": "yes",
        "torch": "2.14.1",
        "torchvision": "0.29.1",
        "python": "3.11.2",
        "platform": r"Linux-6.1-x86\_64",
        "device": "Made-up CPU",
        "device_kind": "cpu",
        "cpu_capability": "AVX512",
        "cpu_features": r"avx512\_bf16",
        "backend": "BF16 native, FP16 upcast",
        "threads": "$1$",
    }
    assert {key.removeprefix("study."): text for key, text in values.items() if key.startswith("study.")} == expected


def test_workload_values(values):
    assert values["resnet50.steps"] == "$40$"
    assert values["resnet50.batch_size"] == "$16$"
    assert values["resnet50.floor"] == "--"
    assert values["transformer.floor"] == "$2.25$"
    assert values["transformer.lr"] == "$0.001$"
    assert values["transformer.optimizer"] == "AdamW"
    assert (values["resnet50.arms"], values["transformer.arms"]) == ("$9$", "$10$")


def test_arm_values(values):
    """Arm 3's gaps are 0.006, 0.0075 and 0.009: mean 0.0075, half width 4.302653 x 0.0015 / sqrt(3) = 0.003726."""
    expected = {
        "n": "$3$",
        "diverged": "$0$",
        "init_scale": "$2^{16}$",
        "growth_interval": "$5$",
        "backoff_factor": "$0.5$",
        "steps": "$180$",
        "gap": "$0.00750$",
        "gap_low": "$0.00377$",
        "gap_high": "$0.0112$",
        "gap_n": "$3$",
    }
    assert {key: values[f"transformer.fp16.{key}"] for key in expected} == expected
    skipped = [int(values[f"transformer.fp16.skipped{cause}"].strip("$")) for cause in CAUSE_KEYS]
    assert skipped[0] == sum(skipped[1:]) > 0
    assert float(values["transformer.fp16.skipped_percent"].strip("$")) == pytest.approx(skipped[0] / 1.8, abs=0.05)


CAUSE_KEYS = ["", "_calibration", "_growth_probe", "_sporadic"]


def test_an_arm_that_always_diverged_has_dashes(values):
    key = "resnet50.fp16-static-2e10"
    assert (values[f"{key}.n"], values[f"{key}.completed"], values[f"{key}.diverged"]) == ("$3$", "$0$", "$3$")
    assert {values[f"{key}.{name}"] for name in ("final_loss", "gap", "gap_low", "gap_high", "final_scale")} == {"--"}


def test_an_arm_missing_in_a_workload_has_no_keys(values):
    assert not [key for key in values if key.startswith("resnet50.bf16-scaled")]
    assert "transformer.bf16-scaled.n" in values


def test_where_runs_disagree_every_value_is_named(finished_study, tmp_path):
    folder = shutil.copytree(finished_study, tmp_path / "made-up")
    *_, (member, spec) = member_specs(read_plan(folder))
    run = folder / "runs" / member.run_id
    trace = read_trace(run / "trace.parquet", spec)
    write_run(run, spec, trace, environment={"torch": "2.12.0", "clean": False, "cpu_features": []})
    values = make_macros(folder)
    assert values["study.torch"] == "2.12.0, 2.14.1"
    assert values["study.clean"] == "no, yes"
    assert values["study.cpu_features"] == r"avx512\_bf16, none"


def test_latex_holds_the_same_values(study, values):
    text = (study / "paper" / "macros.tex").read_text()
    assert dict(re.findall(r"^\\hsdefine\{(.*?)\}\{(.*)\}$", text, flags=re.MULTILINE)) == values


def test_every_value_prints(study, values, tmp_path):
    """In text, and in a caption, which LaTeX writes to a file and reads back."""
    macros = (study / "paper" / "macros.tex").read_text()
    body = "\n\n".join(rf"\val{{{key}}}" for key in values)
    caption = r"\begin{table}\caption{\val{resnet50.fp16_injected.final_loss}}\end{table}\listoftables"
    typeset(f"{macros}\n{caption}\n{body}", tmp_path)


def test_values_are_those_of_their_keys(study, tmp_path):
    macros = (study / "paper" / "macros.tex").read_text()
    keys = ["resnet50.fp16_injected.overflows", "transformer.fp16-init-2e24.init_scale", "study.torch"]
    shown = r"\makeatletter" + "".join(rf"\typeout{{\csname hs@{key}\endcsname}}" for key in keys) + r"\makeatother"
    log = typeset(f"{macros}\n{shown}", tmp_path)
    assert "$6$\n$2^{24}$\n2.14.1\n" in log


def test_an_unknown_key_is_a_tex_error(study, tmp_path):
    macros = (study / "paper" / "macros.tex").read_text()
    status, log = compile_latex(macros + r"\val{transformer.fp_16.gap}", tmp_path)
    assert status != 0
    assert "No value for the key 'transformer.fp_16.gap'" in log


def test_one_key_has_one_value():
    """A workload a.b with an arm c, and a workload a with an arm b.c."""
    with pytest.raises(ValueError, match=r"a\.b\.c\.n.*rename"):
        unique_keys([("a.b.c.n", "$1$"), ("a.b.c.n", "$2$")])


def test_one_seed(tmp_path):
    make_study_folder(tmp_path, seeds=[3], arms=["fp32", "fp16"])
    values = make_macros(tmp_path)
    assert values["study.seeds"] == "$1$"
    assert values["transformer.fp16.gap"] != "--"
    assert values["transformer.fp16.gap_low"] == "--"


def test_same_bytes_on_every_repeat(study):
    files = [study / "paper" / name for name in ("macros.json", "macros.tex")]
    first = [file.read_bytes() for file in files]
    write_macros(study)
    assert [file.read_bytes() for file in files] == first
