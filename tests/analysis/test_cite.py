"""What `halfscale cite` prints of a figure, from its sidecar."""

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typeset import typeset

from halfscale.analysis.cite import CitationError, cite, list_figures

SIDECAR = {
    "title": "Loss scale of 50% & more",
    "name": "scale_trajectory",
    "caption": "Arm fp16_a, #1.",
    "command": "halfscale figure results/mine scale_trajectory",
    "commit": "0123abc",
    "clean": False,
    "script": "src/halfscale/analysis/figures/scale_trajectory.py",
    "runs": {"commits": ["4567def"], "clean": True, "torch": ["2.14.1"]},
    "inputs": [{"file": "traces.parquet", "sha256": "feed"}],
    "devices": ["Some CPU"],
    "versions": {"halfscale": "0.1.0"},
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The results of a study with one figure."""
    folder = tmp_path / "mine"
    (folder / "figures").mkdir(parents=True)
    (folder / "figures" / "scale_trajectory.json").write_text(json.dumps(SIDECAR), encoding="utf-8")
    Figure().savefig(folder / "figures" / "scale_trajectory.pdf")
    return folder


def test_it_compiles_and_says_where_the_figure_comes_from(study: Path, tmp_path: Path) -> None:
    text = cite("scale_trajectory", study)
    assert "\\label{fig:scale-trajectory}" in text
    assert "% Drawn by `halfscale figure results/mine scale_trajectory`\n% with halfscale 0.1.0\n" in text
    assert "% (commit 0123abc, with uncommitted changes, src/halfscale/analysis/figures/scale_trajectory.py)," in text
    assert "% from runs on Some CPU with PyTorch 2.14.1\n% (commit 4567def):\n" in text
    assert "%   traces.parquet  sha256 feed" in text
    body, entry = text.split("@misc")
    typeset(body, tmp_path)
    assert entry.startswith("{halfscale,\n  author  = {{The halfscale authors}},\n  title   = {halfscale: ")
    assert "note    = {commit 0123abc}" in entry
    assert "year" not in entry  # of a commit that this repository does not have


def test_the_year_is_that_of_the_commit(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("halfscale.analysis.cite.git", lambda *arguments: asked.append(arguments) or "2031")
    assert "  year    = {2031},\n  note" in cite("scale_trajectory", study)
    assert asked[0][-1] == SIDECAR["commit"]


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps(SIDECAR)[:-1], json.dumps(SIDECAR | {"versions": None})])
def test_a_sidecar_that_is_not_whole_is_refused_by_name(study: Path, text: str) -> None:
    path = study / "figures" / "scale_trajectory.json"
    path.write_text(text, encoding="utf-8")
    message = rf"scale_trajectory\.json: is no whole record of a figure; `halfscale figure {study} scale_trajectory`"
    with pytest.raises(CitationError, match=message):
        cite("scale_trajectory", study)
    with pytest.raises(CitationError, match=message):
        list(list_figures(study))


def test_the_list_names_every_figure_and_what_it_shows(study: Path) -> None:
    assert list(list_figures(study)) == ["scale_trajectory  Loss scale of 50% & more"]


def test_a_figure_that_is_not_there_is_told_with_those_that_are(study: Path, tmp_path: Path) -> None:
    with pytest.raises(CitationError, match="has no figure 'final_gap'; allowed: scale_trajectory"):
        cite("final_gap", study)
    with pytest.raises(CitationError, match="none is drawn yet"):
        cite("final_gap", tmp_path)
    with pytest.raises(CitationError, match="has no figures"):
        list(list_figures(tmp_path))
    with pytest.raises(CitationError, match=r"nowhere: is no folder; allowed: that of a study's results, such as "):
        list(list_figures(tmp_path / "nowhere"))
