"""A run under way: all that its steps work on."""

from dataclasses import dataclass

from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from halfscale.instruments.check_scales import check_layer_scales
from halfscale.instruments.describe import describe_effective
from halfscale.instruments.modules import treat_modules
from halfscale.instruments.sampler import Sampler
from halfscale.instruments.setup import make_model, make_optimizer, make_schedule
from halfscale.instruments.telemetry import Telemetry
from halfscale.machine.devices import be_deterministic
from halfscale.numerics.loss_scaling import make_scaler
from halfscale.numerics.precision import (
    AUTOCAST,
    DeviceType,
    choose_backend,
    choose_device,
    choose_precision,
    set_reduced_precision_reduction,
    set_tf32,
)
from halfscale.study.arm import NoLossScaling
from halfscale.study.records import Effective
from halfscale.study.sources import run_digest
from halfscale.study.spec import RunSpec
from halfscale.workloads.batch import Data
from halfscale.workloads.registry import build_data


@dataclass
class Run:
    """A run under way."""

    spec: RunSpec
    device: DeviceType
    model: nn.Module
    data: Data
    optimizer: Optimizer
    schedule: LambdaLR
    scaler: GradScaler
    telemetry: Telemetry
    sampler: Sampler
    effective: Effective
    code: str
    """Hash of the sources, taken before the first step: an edit made while a run trains is not what ran."""
    updates: int = 0
    """Updates applied, counted at the optimizer itself and not derived from the scaler's findings."""


def prepare(spec: RunSpec) -> Run:
    """Build everything that a run needs, and check that its precision is really in effect.

    Raises:
        UnavailableError: a precision or a device is not to be had, or not in effect.
        UserError: the model or the data cannot be trained as the spec says.
    """
    device = choose_device(spec.device)
    be_deterministic(spec.threads)
    precision = choose_precision(spec.precision, spec.fallback, device)
    set_tf32(False)  # for the check of the layers' scales
    set_reduced_precision_reduction(spec.reduced_precision_reduction)
    model = make_model(spec, device)
    data = build_data(spec.data, spec.seed, spec.data_args)
    if spec.layer_scales:
        check_layer_scales(spec, model, data, device)
    set_tf32(precision == "tf32")
    if spec.pitfall == "half_weights":
        model.to(AUTOCAST[precision])
    treat_modules(model, spec.fp32_modules if precision == spec.precision else [], spec.layer_scales, device)
    optimizer = make_optimizer(spec.optimizer, model)
    # A run that fell back to fp32 needs no loss scaling either.
    scaling = spec.loss_scaling if precision == spec.precision else NoLossScaling(kind="none")
    scaler = make_scaler(scaling, device)
    effective = describe_effective(
        device, precision, spec.precision, choose_backend(spec.backend, device, precision), scaler, data.fingerprint
    )
    telemetry = Telemetry(model, device, precision)
    sampler = Sampler(optimizer.param_groups[0]["params"], spec.sample_every, device)
    schedule, code = make_schedule(spec, optimizer), run_digest(spec)
    run = Run(spec, device, model, data, optimizer, schedule, scaler, telemetry, sampler, effective, code)
    optimizer.register_step_post_hook(lambda *_: setattr(run, "updates", run.updates + 1))
    return run
