"""One run of a study, by its spec or by what it is called."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from halfscale.study.explain import did_you_mean, explain
from halfscale.study.identity import Spec
from halfscale.study.load import ConfigError, load_study
from halfscale.study.memory import MemorySpec
from halfscale.study.output_dtypes import OutputDtypesSpec
from halfscale.study.practices import PracticesSpec
from halfscale.study.probe import ProbeSpec
from halfscale.study.roofline import RooflineSpec
from halfscale.study.runs import plan_study
from halfscale.study.spec import RunSpec
from halfscale.study.throughput import ThroughputSpec

AnySpec = TypeVar("AnySpec", bound=Spec)


def parse_spec(text: str, kind: type[AnySpec]) -> AnySpec:
    """Return the spec that a JSON text, or a file holding one, describes.

    Args:
        text: JSON, or the path of a file.
        kind: the instrument's spec.

    Raises:
        ConfigError: it is neither.
    """
    source = "--spec"
    if not text.lstrip().startswith("{"):
        source = text
        try:
            text = Path(text).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ConfigError(f"{source}: cannot be read: it is not UTF-8 text") from None
        except OSError as error:
            raise ConfigError(f"{source}: cannot be read: {error.strerror}") from None
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        lines = [f"{source}: {line}" for _, line in explain(error, {}, kind)]
        raise ConfigError("\n".join(lines)) from None


def choose_run(config: Sequence[Path], workload: str | None, arm: str | None, seed: int | None) -> RunSpec:
    """Return the run of a workload, an arm and a seed, the first of them where none is given.

    Raises:
        ConfigError: the config is bad, or it has no such run.
    """
    if workload is None or arm is None:
        raise ConfigError("--workload and --arm are needed, or --spec; `halfscale plan` lists them")
    plan = plan_study(load_study(config))
    arms: dict[str, list[str]] = {}
    for member in plan.members:
        if (member.workload, member.arm) == (workload, arm) and seed in (None, member.seed):
            return plan.runs[member.run_id]
        arms.setdefault(member.workload, []).append(member.arm)
    if workload not in arms:
        raise unknown("--workload", workload, arms)
    if arm not in arms[workload]:
        raise unknown("--arm", arm, dict.fromkeys(arms[workload]))
    raise unknown("--seed", str(seed), map(str, plan.study.seeds))


def choose_output_dtypes(config: Sequence[Path], workload: str | None) -> OutputDtypesSpec:
    """Return the output dtypes spec of a workload.

    Raises:
        ConfigError: the config is bad, or it does not look at that workload.
    """
    return choose_named(plan_study(load_study(config)).output_dtypes, "--workload", workload)


def choose_probe(config: Sequence[Path], workload: str | None) -> ProbeSpec:
    """Return the probe spec of a workload.

    Raises:
        ConfigError: the config is bad, or it does not probe that workload.
    """
    return choose_named(plan_study(load_study(config)).probe, "--workload", workload)


def choose_throughput(config: Sequence[Path], workload: str | None) -> ThroughputSpec:
    """Return the throughput spec of a workload.

    Raises:
        ConfigError: the config is bad, or it does not time that workload.
    """
    return choose_named(plan_study(load_study(config)).throughput, "--workload", workload)


def choose_memory(config: Sequence[Path], case: str | None) -> MemorySpec:
    """Return the memory spec of a case.

    Raises:
        ConfigError: the config is bad, or it has no such case.
    """
    return choose_named(plan_study(load_study(config)).memory, "--case", case)


def choose_roofline(config: Sequence[Path], case: str | None) -> RooflineSpec:
    """Return the roofline spec of a case.

    Raises:
        ConfigError: the config is bad, or it has no such case.
    """
    return choose_named(plan_study(load_study(config)).roofline, "--case", case)


def choose_practices(config: Sequence[Path], case: str | None) -> PracticesSpec:
    """Return the practices spec of a case.

    Raises:
        ConfigError: the config is bad, or it has no such case.
    """
    return choose_named(plan_study(load_study(config)).practices, "--case", case)


def choose_named(specs: Mapping[str, AnySpec], option: str, name: str | None) -> AnySpec:
    """Return a spec by its name.

    Raises:
        ConfigError: there is none; the message begins with the option that gave the name.
    """
    if name is None or name not in specs:
        raise unknown(option, name, specs)
    return specs[name]


def unknown(option: str, given: str | None, known: Iterable[str]) -> ConfigError:
    """Return what is said of an option whose value the config does not have."""
    names = list(known)
    hint = did_you_mean(given, names) if given else ""
    wrong = f"{given}: this config has none of that name here{hint}" if given else "is missing: name one"
    return ConfigError(f"{option} {wrong}; allowed: {', '.join(names) or 'none'}")
