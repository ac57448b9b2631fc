# What every stage shares: the study, its plan, and where things lie.
import os
import shlex
import shutil
import sys

from halfscale.analysis.figures import figure_names, figure_text
from halfscale.study.load import ConfigError, load_study
from halfscale.study.runs import plan_study
from halfscale.study.sources import run_digest, sources_digest

# `halfscale` is that of the environment that Snakemake runs in, whatever PATH says.
shell.prefix(f"set -euo pipefail; PATH={shlex.quote(os.path.dirname(sys.executable))}:$PATH; ")


def load_plan():
    """Read the config files of the command line, or the embedded default, and expand them into runs.

    They are read by halfscale and not by Snakemake, whose YAML 1.1 takes 1e-4 for text and `no` for false.
    """
    files = workflow.configfiles or [os.path.join(workflow.basedir, "config", "config.yaml")]
    try:
        return plan_study(
            load_study(
                [os.path.relpath(file) for file in files],
                workflow.config_settings.config,
            )
        )
    except ConfigError as error:
        sys.exit(str(error))  # a WorkflowError would point at this file, where there is nothing to mend


PLAN = load_plan()
STUDY = PLAN.study
FOLDER = f"results/{STUDY.study}"
FIGURES = figure_names()
PAPER = os.path.relpath(os.path.join(workflow.basedir, "paper"))


wildcard_constraints:
    run="[^/]+",
    figure="|".join(FIGURES),


def study_targets():
    """The files that a study ends with; without a LaTeX engine, all but the paper."""
    targets = [f"{FOLDER}/tables/arms.csv", f"{FOLDER}/paper/macros.json"]
    targets += [f"{FOLDER}/figures/{figure}.pdf" for figure in FIGURES]
    if shutil.which("latexmk") or shutil.which("tectonic"):
        targets.append(f"{FOLDER}/paper.pdf")
    else:
        logger.warning("No LaTeX engine: the study will end without paper.pdf. Install latexmk or tectonic.")
    return targets


def spec_of(wildcards):
    return PLAN.runs[wildcards.run].canonical()


def code_of(wildcards):
    return run_digest(PLAN.runs[wildcards.run])


def run_records(wildcards):
    """The records of every distinct run of the study."""
    return [f"{FOLDER}/runs/{run}/{name}" for run in PLAN.runs for name in ("trace.parquet", "summary.json")]


def figure_title(wildcards):
    return {"what": figure_text(wildcards.figure, "TITLE")}


def figure_caption(wildcards):
    return figure_text(wildcards.figure, "CAPTION")


def figure_code(wildcards):
    return sources_digest(["halfscale.analysis.draw", f"halfscale.analysis.figures.{wildcards.figure}"])


def paper_sources(wildcards):
    """Every source of the paper."""
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(PAPER) for name in names)
