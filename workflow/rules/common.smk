# What every stage shares: the study, its plan, and where things lie.
import os
import shlex
import shutil
import sys

from halfscale.analysis.contents import main_tables, tables_lacking, tables_of
from halfscale.analysis.claims import claim_modules, claim_tables
from halfscale.analysis.figures import FIGURE_FILES, figure_inputs, figure_names, figure_text
from halfscale.study.load import ConfigError, load_study
from halfscale.study.runs import plan_study
from halfscale.study.sources import instrument_digest, run_digest, sources_digest

# `halfscale` is that of the environment that Snakemake runs in, whatever PATH says.
shell.prefix(f"set -euo pipefail; PATH={shlex.quote(os.path.dirname(sys.executable))}:$PATH; ")

# For what trains: glibc is told to keep freed memory, else every step gives it back to the system and faults it in
# again, and to ask for huge pages. Each saves about a tenth of a ResNet-50 step.
TUNABLES = "glibc.malloc.trim_threshold=8589934592:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.hugetlb=1"


# What is measured goes before the tables and figures: they are short, and fill the cores to the end.
MEASUREMENT = 1

# All cores of this machine. Jobs of a cluster run elsewhere: profiles/slurm says how many they take.
ALL_CORES = workflow.resource_settings.cores or 1


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


def obstacle():
    """Return in a line why nothing can be written here, and None where it can: Snakemake would raise."""
    here = os.getcwd()
    for folder in (here, os.path.join(here, "results"), os.path.join(here, FOLDER)):
        if os.path.exists(folder) and not os.access(folder, os.W_OK):
            return f"{folder} cannot be written to. `snakemake --directory FOLDER` works in another one."
        # The results may lie on another disk than this folder.
        if os.path.exists(folder) and shutil.disk_usage(folder).free < 10 * 2**20:
            return f"The disk of {folder} is full. What is done is kept: make room, and call again."
    return None


if obstacle():
    sys.exit(obstacle())


onerror:
    if obstacle():
        logger.error(obstacle())


# Of a job: with CUDA and its libraries a process takes gigabytes before it has a model.
MEM_MB = 3000 if STUDY.device == "cpu" else 8000
# The tables of what the study does not measure; a figure that reads one of them is not drawn.
MISSING_TABLES = {f"tables/{table}.csv" for table in tables_lacking(PLAN)}
FIGURES = [name for name in figure_names() if MISSING_TABLES.isdisjoint(figure_inputs(name))]
# Snakemake formats this path, which may lead through a folder with {braces} in its name.
ENVIRONMENT = os.path.join(workflow.basedir, "environment.yml").replace("{", "{{").replace("}", "}}")
PAPER = os.path.relpath(os.path.join(workflow.basedir, "paper"))


# Categories of the HTML report, by the table that a figure reads first.
CATEGORIES = {
    "output_dtypes": "Autocast",
    "predicted_skips": "Gradients",
    "probe_scales": "Gradients",
    "samples": "Inside the runs",
    "exponents": "Inside the runs",
    "practices": "Practices",
    "throughput": "Throughput",
    "memory": "Memory",
    "largest_batch": "Memory",
    "roofline": "Roofline",
}
# Figures that one process draws: it takes longer to start than to draw one.
FIGURE_JOBS = {
    "stability": ["Stability"],
    "numerics": ["Autocast", "Gradients", "Inside the runs", "Practices"],
    "cost": ["Throughput", "Memory", "Roofline"],
}


wildcard_constraints:
    run="[^/]+",
    workload="[^/]+",
    case="[^/]+",


def study_targets():
    """The files that a study ends with; without a LaTeX engine, all but the paper.

    What lies between is among them. Of a job that failed Snakemake removes the outputs, and it does not miss them
    where what was once made from them is still there: old tables would pass for those of the new runs.
    """
    targets = run_records(None) + experiment_records()
    names = ["plan.json", "traces.parquet", "environments.json", "paper/macros.json"]
    targets += [f"{FOLDER}/{name}" for name in names]
    targets += [f"{FOLDER}/tables/{table}.csv" for table in tables_of(PLAN)]
    targets += [f"{FOLDER}/figures/{figure}.{suffix}" for figure in FIGURES for suffix in FIGURE_FILES]
    if shutil.which("latexmk") or shutil.which("tectonic"):
        targets.append(f"{FOLDER}/paper.pdf")
    else:
        logger.warning("No LaTeX engine: the study will end without paper.pdf. Install latexmk or tectonic.")
    return targets


def experiment_records():
    """The records of everything that the study measures beside its runs."""
    timings = [
        f"{FOLDER}/throughput/{workload}/{name}"
        for workload in PLAN.throughput
        for name in ("steps.parquet", "throughput.json")
    ]
    probes = [
        f"{FOLDER}/probe/{workload}/{name}" for workload in PLAN.probe for name in ("gradients.parquet", "probe.json")
    ]
    practices = [
        f"{FOLDER}/practices/{case}/{name}" for case in PLAN.practices for name in ("steps.parquet", "practices.json")
    ]
    dtypes = [f"{FOLDER}/output_dtypes/{workload}/output_dtypes.json" for workload in PLAN.output_dtypes]
    memory = [f"{FOLDER}/memory/{case}/memory.json" for case in PLAN.memory]
    roofline = [f"{FOLDER}/roofline/{case}/roofline.json" for case in PLAN.roofline]
    return dtypes + probes + timings + practices + memory + roofline


def experiment_tables(ending):
    """The main table of everything that the study measures beside its runs, and of what it concludes from them."""
    return [f"{FOLDER}/tables/{name}.{ending}" for name in main_tables(PLAN)]


def claim_evidence(wildcards):
    """The tables that the claims are judged by, of those that the study has."""
    tables = (f"tables/{name}.csv" for name in sorted(claim_tables()))
    return [f"{FOLDER}/{table}" for table in tables if table not in MISSING_TABLES]


def output_dtypes_of(wildcards):
    return PLAN.output_dtypes[wildcards.workload].canonical()


def output_dtypes_code_of(wildcards):
    spec = PLAN.output_dtypes[wildcards.workload]
    return instrument_digest("halfscale.instruments.output_dtypes", spec.model, spec.data)


def probe_of(wildcards):
    return PLAN.probe[wildcards.workload].canonical()


def probe_code_of(wildcards):
    run = PLAN.probe[wildcards.workload].run
    return instrument_digest("halfscale.instruments.probe", run.model, run.data)


def timing_of(wildcards):
    return PLAN.throughput[wildcards.workload].canonical()


def timing_code_of(wildcards):
    spec = PLAN.throughput[wildcards.workload]
    return instrument_digest("halfscale.instruments.throughput", spec.model, spec.data)


def memory_spec_of(wildcards):
    return PLAN.memory[wildcards.case].canonical()


def memory_code_of(wildcards):
    return instrument_digest("halfscale.instruments.memory", PLAN.memory[wildcards.case].case.model, None)


def roofline_spec_of(wildcards):
    return PLAN.roofline[wildcards.case].canonical()


def roofline_code_of(wildcards):
    return instrument_digest("halfscale.instruments.roofline", PLAN.roofline[wildcards.case].case.model, None)


def practices_of(wildcards):
    return PLAN.practices[wildcards.case].canonical()


def practices_code_of(wildcards):
    run = PLAN.practices[wildcards.case].treatments[0].run
    return instrument_digest("halfscale.instruments.practices", run.model, run.data)


def run_records(wildcards):
    """The records of every distinct run of the study."""
    names = ("trace.parquet", "samples.parquet", "summary.json")
    return [f"{FOLDER}/runs/{run}/{name}" for run in PLAN.runs for name in names]


def figure_category(figure):
    """What a figure is of, by the first table that it reads."""
    first = os.path.basename(figure_inputs(figure)[0]).removesuffix(".csv")
    return CATEGORIES.get(first, "Stability")


def figure_file(figure, suffix):
    """A file of a figure; the HTML report shows the PNG, with the caption that was written when it was drawn."""
    path = f"{FOLDER}/figures/{figure}.{suffix}"
    if suffix != "png":
        return path
    return report(
        path,
        caption=os.path.abspath(f"{FOLDER}/figures/{figure}.rst"),
        category=figure_category(figure),
        subcategory="Figures",
        labels={"what": figure_text(figure, "TITLE")},
    )


def paper_sources(wildcards):
    """Every source of the paper."""
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(PAPER) for name in names)


def published_data(wildcards):
    """What others published."""
    return os.path.relpath(os.path.join(workflow.basedir, "src", "halfscale", "analysis", "published.csv"))
