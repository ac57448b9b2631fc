"""From what was measured to tables, figures and the paper, and what is done with those."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from halfscale.cli.app import Folder, app
from halfscale.errors import UserError


class Part(StrEnum):
    """A part of a study that has tables of its own."""

    STABILITY = "stability"
    EQUIVALENCE = "equivalence"
    SENSITIVITY = "sensitivity"
    SAMPLES = "samples"
    OUTPUT_DTYPES = "output_dtypes"
    PROBE = "probe"
    THROUGHPUT = "throughput"
    MEMORY = "memory"
    ROOFLINE = "roofline"
    PRACTICES = "practices"
    PUBLISHED = "published"
    CLAIMS = "claims"


@app.command()
def collect(folder: Folder) -> None:
    """Gather a study's runs into one table and one trace file, and say where they were computed."""
    from halfscale.analysis.collect import collect as collect_runs

    collect_runs(folder)
    typer.echo(folder / "tables" / "runs.csv")
    typer.echo(folder / "traces.parquet")
    typer.echo(folder / "environments.json")


@app.command()
def tables(folder: Folder, of: Annotated[Part, typer.Option(help="Which part of the study.")] = Part.STABILITY) -> None:
    """Make the tables of a study, as CSV and as LaTeX."""
    from halfscale.analysis.collect import read_plan
    from halfscale.analysis.contents import tables_lacking

    say_so_themselves = (Part.EQUIVALENCE, Part.SENSITIVITY)
    if of in tables_lacking(read_plan(folder)) and of not in say_so_themselves:
        raise UserError(f"{folder}: the study's config has no experiments.{of}, and so no such tables")
    match of:
        case Part.STABILITY:
            from halfscale.analysis.tables import write_tables as write
        case Part.EQUIVALENCE:
            from halfscale.analysis.equivalence import write_equivalence_tables as write
        case Part.SENSITIVITY:
            from halfscale.analysis.sensitivity import write_sensitivity_tables as write
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
        case Part.PUBLISHED:
            from halfscale.analysis.published import write_published_tables as write
        case Part.CLAIMS:
            from halfscale.analysis.claims_tables import write_claims_tables as write
    write(folder)
    for path in sorted((folder / "tables").iterdir()):
        typer.echo(path)


@app.command()
def claims(
    folder: Annotated[Path, typer.Argument(help="A finished study's results.")] = Path("results/quickstart"),
    into: Annotated[
        Path | None, typer.Option(help="A page of Markdown, such as README.md, to put them in between its marks.")
    ] = None,
) -> None:
    """Say what becomes of each claim about half precision: verdict, evidence, and what would decide."""
    from halfscale.analysis.claims_shown import describe_claims, put_between_marks
    from halfscale.analysis.claims_tables import read_claims_table
    from halfscale.analysis.collect import read_plan

    read_plan(folder)  # says what is wrong where this is no study's folder
    table = read_claims_table(folder)
    if into is None:
        typer.echo(describe_claims(table))
    else:
        put_between_marks(into, table)
        typer.echo(into)


@app.command()
def figure(
    folder: Folder,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Figures to draw, such as final_gap; when left out, all that the study has tables for."),
    ] = None,
) -> None:
    """Draw figures of a study: PDF, PNG, a JSON sidecar and a caption each."""
    from halfscale.analysis.collect import read_plan
    from halfscale.analysis.draw import draw_figure
    from halfscale.analysis.figures import FIGURE_FILES, figure_inputs, figure_names

    read_plan(folder)  # says what is wrong where this is no study's folder
    drawable = (name for name in figure_names() if all((folder / path).exists() for path in figure_inputs(name)))
    for name in names or drawable:
        draw_figure(name, folder)
        for suffix in FIGURE_FILES:
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
def export(
    folder: Folder = Path("results/quickstart"),
    output: Annotated[
        Path | None, typer.Option(help="The archive; when left out, FOLDER/<study>.zip.", show_default=False)
    ] = None,
) -> None:
    """Pack a finished study into one archive, ready to deposit: tables, figures, paper, config, traces, provenance."""
    from halfscale.analysis.collect import read_plan
    from halfscale.analysis.export import export_study

    path = output or folder / f"{read_plan(folder).study.study}.zip"
    export_study(folder, path)
    typer.echo(path)
