"""The command itself, and what its subcommands share."""

from pathlib import Path
from typing import Annotated

import typer

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
