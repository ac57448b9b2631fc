"""The halfscale command: each subcommand parses, calls one function, and prints what it wrote.

Imports that take time stand inside the commands, so that --help comes at once.
"""

import gc
import os
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from halfscale.errors import UserError

app = typer.Typer(
    name="halfscale",
    help="What half precision does to training, measured. `make study` or `snakemake --cores all` runs it all; "
    "each command below is one stage of it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Config = Annotated[
    list[Path] | None,
    typer.Option(
        "--config", "-c", help="Config file; a later one is laid over an earlier. Default: config/config.yaml."
    ),
]
Folder = Annotated[Path, typer.Argument(help="A study's results folder, such as results/quickstart.")]

DEFAULT_CONFIG = Path("config/config.yaml")


class Part(StrEnum):
    """A part of a study that has tables of its own."""

    STABILITY = "stability"
    SAMPLES = "samples"
    OUTPUT_DTYPES = "output_dtypes"
    PROBE = "probe"
    THROUGHPUT = "throughput"
    MEMORY = "memory"
    ROOFLINE = "roofline"
    PRACTICES = "practices"


def show_version(asked: bool) -> None:
    """Print the version and end, if that is asked for."""
    if asked:
        from importlib.metadata import version

        typer.echo(f"halfscale {version('halfscale')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take what comes before a command."""


@app.command()
def plan(
    config: Config = None,
    study: Annotated[
        typer.FileText | None,
        typer.Option(
            encoding="utf-8", help="A file with a whole study as JSON, in place of config files; - is standard input."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the plan here as JSON.")] = None,
) -> None:
    """Check a config and list its runs: workload x arm x seed."""
    from halfscale.study.load import load_study, parse_study_text
    from halfscale.study.runs import plan_study
    from halfscale.study.whole import write_text

    try:
        chosen = load_study(config or [DEFAULT_CONFIG]) if study is None else parse_study_text(study.read(), study.name)
    except UnicodeDecodeError:
        raise UserError(f"{study.name if study else config}: cannot be read: it is not UTF-8 text") from None
    made = plan_study(chosen)
    if output:
        write_text(output, made.to_json())
        typer.echo(output)
        return
    for member in made.members:
        typer.echo(f"{member.workload}\t{member.arm}\tseed {member.seed}\t{member.run_id}")
    typer.echo(f"results/{chosen.study}: {len(made.members)} workload x arm x seed, {len(made.runs)} distinct runs")


@app.command()
def train(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for trace.parquet, samples.parquet and summary.json.")
    ],
    spec: Annotated[str | None, typer.Option(help="A run's spec, as JSON text or as a file that holds it.")] = None,
    config: Config = None,
    workload: Annotated[str | None, typer.Option(help="In place of --spec: a workload of the config ...")] = None,
    arm: Annotated[str | None, typer.Option(help="... one of its arms ...")] = None,
    seed: Annotated[int, typer.Option(help="... and a seed of the study.")] = 0,
) -> None:
    """Train one run and write its trace, its samples and its summary."""
    from halfscale.study.choose import choose_run, parse_spec
    from halfscale.study.records import read_summary
    from halfscale.study.spec import RunSpec

    chosen = parse_spec(spec, RunSpec) if spec else choose_run(config or [DEFAULT_CONFIG], workload, arm, seed)
    if (output / "summary.json").exists():
        read_summary(output / "summary.json", chosen)  # refuses to write over another run

    from halfscale.instruments.train import train as train_run
    from halfscale.machine.leases import leased_device
    from halfscale.progress import step_bar

    with leased_device(chosen.device), step_bar(chosen.run_id, chosen.steps) as advance:
        summary = train_run(chosen, output, advance)
    where = f" at step {summary.first_bad_step}: {summary.bad_where}" if summary.status == "diverged" else ""
    typer.echo(
        f"{summary.status}{where}; {summary.updates} updates, {summary.skipped} skipped, {summary.seconds:.1f} s"
    )
    for name in ("trace.parquet", "samples.parquet", "summary.json"):
        typer.echo(output / name)


@app.command()
def output_dtypes(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for output_dtypes.json.")],
    spec: Annotated[str | None, typer.Option(help="A spec, as JSON text or as a file that holds it.")] = None,
    config: Config = None,
    workload: Annotated[
        str | None, typer.Option(help="In place of --spec: a workload whose outputs the config looks at.")
    ] = None,
) -> None:
    """Show the dtype of every output under autocast, on this CPU and on CUDA."""
    from halfscale.study.choose import choose_output_dtypes, parse_spec
    from halfscale.study.output_dtypes import OutputDtypesSpec

    chosen = parse_spec(spec, OutputDtypesSpec) if spec else choose_output_dtypes(config or [DEFAULT_CONFIG], workload)

    from halfscale.analysis.output_dtypes import describe_output_dtypes
    from halfscale.instruments.output_dtypes import output_dtypes as look_at_outputs
    from halfscale.machine.leases import leased_device

    with leased_device(chosen.device):
        record = look_at_outputs(chosen, output)
    typer.echo(describe_output_dtypes(workload or chosen.model, record))
    typer.echo(output / "output_dtypes.json")


@app.command()
def probe(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for gradients.parquet and probe.json.")],
    spec: Annotated[str | None, typer.Option(help="A spec, as JSON text or as a file that holds it.")] = None,
    config: Config = None,
    workload: Annotated[str | None, typer.Option(help="In place of --spec: a workload that the config probes.")] = None,
) -> None:
    """Probe the gradients of one batch in FP32, BF16, and FP16 at every scale: the operating window of the loss scale."""
    from halfscale.study.choose import choose_probe, parse_spec
    from halfscale.study.probe import ProbeSpec

    chosen = parse_spec(spec, ProbeSpec) if spec else choose_probe(config or [DEFAULT_CONFIG], workload)

    from halfscale.analysis.probe import describe_probe
    from halfscale.instruments.probe import probe as probe_gradients
    from halfscale.instruments.probe import probe_length
    from halfscale.machine.leases import leased_device
    from halfscale.progress import step_bar

    with leased_device(chosen.run.device), step_bar("probe", probe_length(chosen)) as advance:
        probe_gradients(chosen, output, advance)
    typer.echo(describe_probe(output, chosen))
    for name in ("gradients.parquet", "probe.json"):
        typer.echo(output / name)


@app.command()
def throughput(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for steps.parquet and throughput.json.")],
    spec: Annotated[str | None, typer.Option(help="A spec, as JSON text or as a file that holds it.")] = None,
    config: Config = None,
    workload: Annotated[str | None, typer.Option(help="In place of --spec: a workload that the config times.")] = None,
) -> None:
    """Time the steps of a workload in every variant, in randomised blocks."""
    from halfscale.study.choose import choose_throughput, parse_spec
    from halfscale.study.throughput import ThroughputSpec

    chosen = parse_spec(spec, ThroughputSpec) if spec else choose_throughput(config or [DEFAULT_CONFIG], workload)

    from halfscale.analysis.throughput import describe_throughput
    from halfscale.instruments.throughput import throughput as time_steps
    from halfscale.machine.leases import leased_device
    from halfscale.progress import step_bar

    turns = chosen.blocks * len(chosen.variants)
    with leased_device(chosen.device), step_bar(chosen.workload, turns) as advance:
        time_steps(chosen, output, advance)
    typer.echo(describe_throughput(output, chosen))
    for name in ("steps.parquet", "throughput.json"):
        typer.echo(output / name)


@app.command()
def memory(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for memory.json.")],
    spec: Annotated[str | None, typer.Option(help="A spec, as JSON text or as a file that holds it.")] = None,
    config: Config = None,
    case: Annotated[str | None, typer.Option(help="In place of --spec: a case of the config's memory.")] = None,
) -> None:
    """Predict the memory of a training step, by kind, and the largest batch of each device."""
    from halfscale.study.choose import choose_memory, parse_spec
    from halfscale.study.memory import MemorySpec

    chosen = parse_spec(spec, MemorySpec) if spec else choose_memory(config or [DEFAULT_CONFIG], case)

    from halfscale.analysis.memory import describe_memory
    from halfscale.instruments.memory import memory as predict_memory
    from halfscale.machine.leases import leased_device

    with leased_device(chosen.device):
        record = predict_memory(chosen, output)
    typer.echo(describe_memory(record))
    typer.echo(output / "memory.json")


@app.command()
def roofline(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for roofline.json.")],
    spec: Annotated[str | None, typer.Option(help="A spec, as JSON text or as a file that holds it.")] = None,
    config: Config = None,
    case: Annotated[str | None, typer.Option(help="In place of --spec: a case of the config's roofline.")] = None,
) -> None:
    """Predict the time of a training step on hardware that is not here, as data sheets bound it."""
    from halfscale.study.choose import choose_roofline, parse_spec
    from halfscale.study.roofline import RooflineSpec

    chosen = parse_spec(spec, RooflineSpec) if spec else choose_roofline(config or [DEFAULT_CONFIG], case)

    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # nothing is computed: a trace must not take room on a GPU
    from halfscale.analysis.roofline import describe_roofline
    from halfscale.instruments.roofline import roofline as predict_time

    typer.echo(describe_roofline(predict_time(chosen, output)))
    typer.echo(output / "roofline.json")


@app.command()
def practices(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for steps.parquet and practices.json.")],
    spec: Annotated[str | None, typer.Option(help="A spec, as JSON text or as a file that holds it.")] = None,
    config: Config = None,
    case: Annotated[str | None, typer.Option(help="In place of --spec: a case of the config's practices.")] = None,
) -> None:
    """Measure wrong ways to train in half precision, and remedies for overflow, against the right way in blocks."""
    from halfscale.study.choose import choose_practices, parse_spec
    from halfscale.study.practices import PracticesSpec

    chosen = parse_spec(spec, PracticesSpec) if spec else choose_practices(config or [DEFAULT_CONFIG], case)

    from halfscale.analysis.practices import describe_practices
    from halfscale.instruments.practices import practices as measure_practices
    from halfscale.machine.leases import leased_device
    from halfscale.progress import step_bar

    runs = chosen.runs()
    with leased_device(runs[0][1].device), step_bar("practices", len(runs)) as advance:
        typer.echo(describe_practices(measure_practices(chosen, output, advance)))
    for name in ("steps.parquet", "practices.json"):
        typer.echo(output / name)


@app.command()
def collect(folder: Folder) -> None:
    """Gather a study's runs into one table and one trace file."""
    from halfscale.analysis.collect import collect as collect_runs

    collect_runs(folder)
    typer.echo(folder / "tables" / "runs.csv")
    typer.echo(folder / "traces.parquet")


@app.command()
def tables(folder: Folder, of: Annotated[Part, typer.Option(help="Which part of the study.")] = Part.STABILITY) -> None:
    """Make the tables of a study, as CSV and as LaTeX."""
    match of:
        case Part.STABILITY:
            from halfscale.analysis.tables import write_tables as write
        case Part.SAMPLES:
            from halfscale.analysis.samples import write_sample_tables as write
        case Part.OUTPUT_DTYPES:
            from halfscale.analysis.output_dtypes import write_output_dtypes_tables as write
        case Part.PROBE:
            from halfscale.analysis.probe import write_probe_tables as write
        case Part.THROUGHPUT:
            from halfscale.analysis.throughput import write_throughput_tables as write
        case Part.MEMORY:
            from halfscale.analysis.memory import write_memory_tables as write
        case Part.ROOFLINE:
            from halfscale.analysis.roofline import write_roofline_tables as write
        case Part.PRACTICES:
            from halfscale.analysis.practices import write_practices_tables as write
    write(folder)
    for path in sorted((folder / "tables").iterdir()):
        typer.echo(path)


@app.command()
def figure(
    folder: Folder,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Figures to draw, such as final_gap; when left out, all that the study has tables for."),
    ] = None,
) -> None:
    """Draw figures of a study: PDF, PNG and a JSON sidecar each."""
    from halfscale.analysis.collect import read_plan
    from halfscale.analysis.draw import draw_figure
    from halfscale.analysis.figures import figure_inputs, figure_names

    read_plan(folder)  # says what is wrong where this is no study's folder
    drawable = (name for name in figure_names() if all((folder / path).exists() for path in figure_inputs(name)))
    for name in names or drawable:
        draw_figure(name, folder)
        for suffix in ("pdf", "png", "json"):
            typer.echo(folder / "figures" / f"{name}.{suffix}")


@app.command()
def macros(folder: Folder) -> None:
    """Write every number that the paper cites, as TeX and JSON."""
    from halfscale.analysis.macros import write_macros

    write_macros(folder)
    typer.echo(folder / "paper" / "macros.tex")
    typer.echo(folder / "paper" / "macros.json")


@app.command()
def paper(
    folder: Folder,
    sources: Annotated[Path, typer.Option(help="The paper's sources.")] = Path("paper"),
) -> None:
    """Build the paper of a study."""
    from halfscale.analysis.paper import build_paper

    build_paper(folder, sources)
    typer.echo(folder / "paper.pdf")


@app.command()
def cite(
    figure: Annotated[str | None, typer.Argument(help="A figure of the study, such as final_gap.")] = None,
    study: Annotated[Path, typer.Option(help="The study's results folder.")] = Path("results/quickstart"),
    every: Annotated[bool, typer.Option("--list", help="List the figures instead.")] = False,
) -> None:
    """Print a figure as LaTeX with caption and label, where it comes from, and BibTeX."""
    from halfscale.analysis.cite import cite as cite_figure
    from halfscale.analysis.cite import list_figures

    if not every and figure is None:
        raise UserError("name a figure, or --list them")
    typer.echo("\n".join(list_figures(study)) if figure is None or every else cite_figure(figure, study), nl=every)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="A finished study's results.")] = Path("results/quickstart"),
    reference: Annotated[Path, typer.Option(help="What the committed references lie in.")] = Path("results/reference"),
    record: Annotated[bool, typer.Option("--record", help="Keep these tables as this platform's reference.")] = False,
) -> None:
    """Hold a study's tables against the committed ones; exit with 1 where one differs."""
    from halfscale.analysis.verify import PLATFORM_TOLERANCE, record_reference
    from halfscale.analysis.verify import verify as verify_tables

    if record:
        typer.echo(record_reference(folder, reference))
        return
    used, same_platform, compared = verify_tables(folder, reference)
    typer.echo(f"held against {used}")
    if not same_platform:
        typer.echo(f"of another platform: numbers may differ by {PLATFORM_TOLERANCE:.0%}")
    for each in compared:
        typer.echo(f"{each.table:18} {each.verdict}{f': {each.where}' if each.where else ''}")
    if any(each.verdict == "different" for each in compared):
        raise typer.Exit(1)


@app.command()
def schema(output: Annotated[Path, typer.Option("--output", "-o")] = Path("config/schema.json")) -> None:
    """Write the JSON Schema of a config, for editors."""
    from halfscale.study.schema import write_schema

    write_schema(output)
    typer.echo(output)


def main() -> None:
    """Run the command. What a user can mend is told in a line; the traceback of code of their own comes before it."""
    # Looking for garbage among all that torch imports, at the start and once more at the end, takes over a second.
    gc.set_threshold(100_000)
    try:
        app()
    except (UserError, OSError) as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        print(f"halfscale: {error}", file=sys.stderr)
        sys.exit(1)
    finally:
        gc.freeze()
