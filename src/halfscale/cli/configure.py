"""What to run: check a config, and the schema that editors check it by."""

from pathlib import Path
from typing import Annotated

import typer

from halfscale.cli.app import DEFAULT_CONFIG, Config, app
from halfscale.errors import UserError


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
def schema(output: Annotated[Path, typer.Option("--output", "-o")] = Path("config/schema.json")) -> None:
    """Write the JSON Schema of a config, for editors."""
    from halfscale.study.schema import write_schema

    write_schema(output)
    typer.echo(output)
