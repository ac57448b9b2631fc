"""From a study to its runs: which workload, arm and seed each run of a study stands for."""

import json
from collections.abc import Iterator
from typing import Self

from pydantic import model_validator

from halfscale.study.arm import Arm
from halfscale.study.config import Study
from halfscale.study.memory import MemorySpec, memory_specs
from halfscale.study.model import Model, Name
from halfscale.study.output_dtypes import OutputDtypesSpec, output_dtypes_spec
from halfscale.study.practices import PracticesSpec, Treatment
from halfscale.study.probe import ProbeSpec, probe_spec
from halfscale.study.roofline import RooflineSpec, roofline_specs
from halfscale.study.spec import RunSpec
from halfscale.study.sweep import expand_sweeps
from halfscale.study.throughput import ThroughputSpec, throughput_spec
from halfscale.study.workload import Workload

__all__ = ["Member", "Plan", "Roster", "RunSpec", "make_spec", "member_specs", "plan_study"]


class Member(Model):
    """A run's place in a study: which workload and which arm it stands for."""

    workload: Name
    arm: Name
    seed: int
    run_id: str


class Roster(Model):
    """What plan.json holds: a study, and its members in config order. It has no specs: member_specs makes them."""

    study: Study
    arms: list[Arm]
    """All arms, those of sweeps included, in the order that tables and figures keep."""
    members: list[Member]
    output_dtypes: dict[str, OutputDtypesSpec]
    """By the name of the workload whose outputs are looked at."""
    probe: dict[str, ProbeSpec]
    """By the name of the workload whose gradients are probed."""
    throughput: dict[str, ThroughputSpec]
    """By the name of the workload that is timed; empty where the study times none."""
    memory: dict[str, MemorySpec]
    """By the name of the case whose memory is predicted."""
    roofline: dict[str, RooflineSpec]
    """By the name of the case whose time is predicted."""
    practices: dict[str, PracticesSpec]
    """By the name of the case whose wrong ways or remedies are measured."""

    @model_validator(mode="after")
    def is_of_its_study(self) -> Self:
        """Refuse arms and members that the study does not have, as a file edited by hand may hold."""
        if self.arms != expand_sweeps(self.study.arms, self.study.sweeps):
            raise ValueError("arms are not those of the study; plan the study anew")
        workloads, arms = ({each.name for each in every} for every in (self.study.workloads, self.arms))
        for member in self.members:
            if member.workload not in workloads or member.arm not in arms:
                raise ValueError(
                    f"the study has no arm {member.arm!r} of a workload {member.workload!r}; plan the study anew"
                )
        return self

    def to_json(self) -> str:
        """Return the roster as JSON text, the same for the same study."""
        kept = self.model_dump(include=set(Roster.model_fields))
        return json.dumps(kept, sort_keys=True, indent=1, allow_nan=False) + "\n"

    def in_config_order(self) -> Self:
        """Return the roster with its experiments in the order of the config, which JSON with sorted keys forgets."""
        workloads = [workload.name for workload in self.study.workloads]
        experiments = self.study.experiments
        orders: dict[str, list[str]] = {
            "output_dtypes": workloads,
            "probe": workloads,
            "throughput": workloads,
            "memory": [case.name for case in experiments.memory.cases] if experiments.memory else [],
            "roofline": [case.name for case in experiments.roofline.cases] if experiments.roofline else [],
            "practices": [case.name for case in experiments.practices.cases] if experiments.practices else [],
        }
        return self.model_copy(
            update={
                kind: {name: getattr(self, kind)[name] for name in order if name in getattr(self, kind)}
                for kind, order in orders.items()
            }
        )


class Plan(Roster):
    """A study expanded: its roster, and its distinct runs."""

    runs: dict[str, RunSpec]
    """By run id."""


def plan_study(study: Study) -> Plan:
    """Expand a study into runs: workload x arm x seed."""
    arms = expand_sweeps(study.arms, study.sweeps)
    members: list[Member] = []
    runs: dict[str, RunSpec] = {}
    for workload in study.workloads:
        for arm in arms:
            if arm.workloads is not None and workload.name not in arm.workloads:
                continue
            for seed in study.seeds_of(workload):
                spec = make_spec(study, workload, arm, seed)
                run_id = spec.run_id
                runs[run_id] = spec
                members.append(Member(workload=workload.name, arm=arm.name, seed=seed, run_id=run_id))
    return Plan(
        study=study,
        arms=arms,
        members=members,
        runs=runs,
        output_dtypes=plan_output_dtypes(study),
        probe=plan_probes(study, arms),
        throughput=plan_throughput(study),
        memory=memory_specs(study.experiments.memory, study.device),
        roofline=roofline_specs(study.experiments.roofline),
        practices=plan_practices(study),
    )


def member_specs(roster: Roster) -> Iterator[tuple[Member, RunSpec]]:
    """Yield each member with its spec, one at a time: all specs at once take ten times the room of their results."""
    workloads = {workload.name: workload for workload in roster.study.workloads}
    arms = {arm.name: arm for arm in roster.arms}
    for member in roster.members:
        yield member, make_spec(roster.study, workloads[member.workload], arms[member.arm], member.seed)


def plan_output_dtypes(study: Study) -> dict[str, OutputDtypesSpec]:
    """Return the spec of every workload whose outputs are looked at, by its name."""
    settings = study.experiments.output_dtypes
    if settings is None:
        return {}
    return {
        workload.name: output_dtypes_spec(workload, study.seeds_of(workload)[0], study.device, study.backend)
        for workload in study.workloads
        if settings.workloads is None or workload.name in settings.workloads
    }


def plan_probes(study: Study, arms: list[Arm]) -> dict[str, ProbeSpec]:
    """Return the probe spec of every workload that is probed, by its name: at the weights of the reference's first run."""
    settings = study.experiments.probe
    if settings is None:
        return {}
    reference = next(arm for arm in arms if arm.name == study.reference)
    return {
        workload.name: probe_spec(settings, make_spec(study, workload, reference, study.seeds_of(workload)[0]))
        for workload in study.workloads
        if settings.workloads is None or workload.name in settings.workloads
    }


def plan_throughput(study: Study) -> dict[str, ThroughputSpec]:
    """Return the throughput spec of every workload that is timed, by its name."""
    settings = study.experiments.throughput
    if settings is None:
        return {}
    return {
        workload.name: throughput_spec(settings, workload, study.seeds_of(workload)[0], study.device)
        for workload in study.workloads
        if settings.workloads is None or workload.name in settings.workloads
    }


def plan_practices(study: Study) -> dict[str, PracticesSpec]:
    """Return the spec of each case of the practices, by its name."""
    settings = study.experiments.practices
    return {
        case.name: PracticesSpec(
            reference=case.compared_with,
            seeds=study.seeds_of(case.workload),
            treatments=[
                Treatment(arm=arm.name, run=make_spec(study, case.workload, arm, study.seeds_of(case.workload)[0]))
                for arm in case.arms
            ],
        )
        for case in (settings.cases if settings else [])
    }


def make_spec(study: Study, workload: Workload, arm: Arm, seed: int) -> RunSpec:
    """Return the spec of one run."""
    kept = [name for name in Workload.model_fields if name not in ("name", "seeds", "optimizer")]
    shared = {name: getattr(workload, name) for name in kept}
    return RunSpec(
        **shared,
        optimizer=workload.optimizer.model_copy(update={"lr": workload.optimizer.lr * arm.lr_factor}),
        precision=arm.precision,
        loss_scaling=arm.effective_loss_scaling,
        perturb=arm.perturb,
        # Only CUDA has 16-bit products that could be summed in 16 bits.
        reduced_precision_reduction=(
            arm.reduced_precision_reduction or study.device == "cpu" or arm.precision not in ("fp16", "bf16")
        ),
        fallback="none" if arm.precision == "fp32" else arm.fallback,  # fp32 falls back to nothing else
        inject=arm.inject,
        pitfall=arm.pitfall,
        fp32_modules=arm.fp32_modules if arm.precision in ("fp16", "bf16") else [],
        layer_scales=arm.layer_scales,
        seed=seed,
        device=study.device,
        backend=study.backend,
        threads=study.threads,
    )
