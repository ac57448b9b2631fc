"""Measuring: each instrument, from a spec or from a config."""

import os
from pathlib import Path
from typing import Annotated

import typer

from halfscale.cli.app import DEFAULT_CONFIG, Config, app


@app.command()
def train(
    output: Annotated[
        list[Path], typer.Option("--output", "-o", help="Folder for trace.parquet, samples.parquet and summary.json.")
    ],
    spec: Annotated[
        list[str] | None,
        typer.Option(help="A run's spec, as JSON text or as a file that holds it; several, each with its --output."),
    ] = None,
    config: Config = None,
    workload: Annotated[str | None, typer.Option(help="In place of --spec: a workload of the config ...")] = None,
    arm: Annotated[str | None, typer.Option(help="... one of its arms ...")] = None,
    seed: Annotated[int | None, typer.Option(help="... and a seed of the study; its first when left out.")] = None,
) -> None:
    """Train one run, or several one after another, and write the trace, the samples and the summary of each."""
    from halfscale.study.choose import choose_run, parse_spec
    from halfscale.study.load import ConfigError
    from halfscale.study.records import read_summary
    from halfscale.study.spec import RunSpec

    specs = [parse_spec(text, RunSpec) for text in spec or []]
    chosen = specs or [choose_run(config or [DEFAULT_CONFIG], workload, arm, seed)]
    if len(output) != len(chosen):
        raise ConfigError(f"--output: {len(output)} folders for {len(chosen)} runs; allowed: one each")
    for run, folder in zip(chosen, output, strict=True):
        if (folder / "summary.json").exists():
            read_summary(folder / "summary.json", run)  # refuses to write over another run

    from halfscale.instruments.train import train as train_run
    from halfscale.machine.leases import leased_device
    from halfscale.progress import step_bar

    for run, folder in zip(chosen, output, strict=True):
        with leased_device(run.device), step_bar(run.run_id, run.steps) as advance:
            summary = train_run(run, folder, advance)
        where = f" at step {summary.first_bad_step}: {summary.bad_where}" if summary.status == "diverged" else ""
        typer.echo(
            f"{summary.status}{where}; {summary.updates} updates, {summary.skipped} skipped, {summary.seconds:.1f} s"
        )
        for name in ("trace.parquet", "samples.parquet", "summary.json"):
            typer.echo(folder / name)


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
    """Probe the gradients of one batch in FP32, BF16, and FP16 at many scales: the operating window of the loss scale."""
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
