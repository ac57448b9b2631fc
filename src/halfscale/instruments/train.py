"""The train instrument: one run, from its spec to its records."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_

from halfscale.instruments.checkpoint import Checkpoints
from halfscale.instruments.divergence import Divergence, find_explosion, find_nonfinite, find_nonfinite_parameter
from halfscale.instruments.evaluate import evaluate
from halfscale.instruments.forward import forward
from halfscale.instruments.modules import check_called
from halfscale.instruments.norms import norms_and_largest, norms_of, total_norm
from halfscale.instruments.pitfalls import after_unscaling, before_unscaling, differentiated_loss, is_passed_over
from halfscale.instruments.run import Run, prepare
from halfscale.instruments.setup import TrainingError
from halfscale.instruments.summarise import summarise
from halfscale.instruments.telemetry import Step
from halfscale.numerics.loss_scaling import found_inf, scale_tensor
from halfscale.numerics.precision import arithmetic
from halfscale.study.records import Summary, write_summary, write_trace
from halfscale.study.samples import write_samples
from halfscale.study.spec import RunSpec
from halfscale.workloads.batch import Batch


def train(spec: RunSpec, folder: Path, progress: Callable[[int], None] = lambda step: None) -> Summary:
    """Run a spec and write folder/trace.parquet and folder/samples.parquet, then folder/summary.json.

    Args:
        spec: what to run.
        folder: where its records go, at the run's end; until then it holds a checkpoint at the most, from which the
            same spec goes on.
        progress: called after each step with the number of steps done.

    Raises:
        UnavailableError: a precision or a device is not to be had, or not in effect.
        CheckpointError: the folder has a checkpoint that is not whole.
        UserError: the model or the data cannot be trained as the spec says.
    """
    run = prepare(spec)
    checkpoints = Checkpoints(run, folder)
    started = time.perf_counter()
    divergence = take_steps(run, checkpoints, progress)
    trace = run.telemetry.trace()
    if divergence is None:
        divergence = find_explosion(trace)
    else:
        trace = trace[: divergence.step + 1]
    evaluation = evaluate(spec, run.model, run.data, run.effective) if divergence is None else None
    seconds = time.perf_counter() - started
    digest = write_trace(trace, spec, folder / "trace.parquet")
    samples = run.telemetry.sampled(len(trace))
    samples_digest = write_samples(samples, len(trace), spec, folder / "samples.parquet")
    final_scale = run.telemetry.scales_after[len(trace) - 1]
    summary = summarise(
        spec,
        trace,
        final_scale,
        divergence,
        evaluation,
        run.effective,
        run.data.floor,
        run.code,
        seconds,
        digest,
        samples_digest,
    )
    write_summary(summary, folder / "summary.json")
    checkpoints.delete()
    return summary


def take_steps(run: Run, checkpoints: Checkpoints, progress: Callable[[int], None]) -> Divergence | None:
    """Train for the spec's steps, or until something is not finite; return what and where, if so.

    Begins where the run's checkpoint left it, if there is one.
    """
    steps = run.spec.steps
    run.model.train()
    for step in range(checkpoints.load(), steps):
        due = take_step(run, step)
        progress(step + 1)
        if due or step + 1 == steps:
            divergence = fetch_and_check(run)
            if divergence is not None:
                return divergence
            checkpoints.save_if_due(step + 1)
    return find_nonfinite_parameter(run.model, steps - 1)


def fetch_and_check(run: Run) -> Divergence | None:
    """Bring the steps since the last fetch to the host; return where they went wrong, if they did."""
    fetched = run.telemetry.fetch()
    passed_over = {each.row["step"] for each in fetched if is_passed_over(run, each)}
    return find_nonfinite(fetched, passed_over)


def take_step(run: Run, step: int) -> bool:
    """Take one optimizer step; return whether its telemetry is due to be fetched."""
    sampler = run.sampler if run.sampler.due(step) else None
    loss, oracle_loss = accumulate_gradients(run, step)
    scaled = run.scaler.is_enabled()
    scale = scale_tensor(run.scaler) if scaled else None
    before_unscaling(run, parameters(run))
    run.scaler.unscale_(run.optimizer)
    received = [parameter for parameter in parameters(run) if parameter.grad is not None]
    gradients = [parameter.grad for parameter in received if parameter.grad is not None]
    after_unscaling(run, gradients)
    norms, grad_max = norms_and_largest(gradients) if sampler else (norms_of(gradients), None)
    grad_norm = total_norm(norms)
    if sampler:
        sampler.see_gradient(gradients)
        sampler.see_weights()
    if run.spec.clip_norm is not None and run.spec.pitfall != "clip_before_unscale":
        # After unscaling, so that the threshold means the same at every scale.
        clip_grads_with_norm_(parameters(run), run.spec.clip_norm, grad_norm)
    lr = float(run.optimizer.param_groups[0]["lr"])
    before = run.updates
    run.scaler.step(run.optimizer)
    overflow = found_inf(run.scaler, run.optimizer) if scaled else None
    if run.spec.pitfall != "update_forgotten":
        run.scaler.update()
    if run.updates > before or run.spec.pitfall == "schedule_on_skipped":  # a skipped step does not advance it
        run.schedule.step()
    sample = sampler.finish() if sampler else None
    run.optimizer.zero_grad()
    scale_after = scale_tensor(run.scaler) if scaled else None
    return run.telemetry.record(
        Step(
            loss=loss,
            oracle_loss=oracle_loss,
            lr=lr,
            parameters=received,
            norms=norms,
            grad_norm=grad_norm,
            grad_max=grad_max,
            scale=scale,
            scale_after=scale_after,
            found_inf=overflow,
            updates=run.updates,
            sample=sample,
        )
    )


def accumulate_gradients(run: Run, step: int) -> tuple[Tensor, Tensor | None]:
    """Sum the gradients of the step's micro-batches at one scale; return mean loss and mean oracle loss.

    Raises:
        TrainingError: as check_gradients and check_called.
    """
    spec = run.spec
    losses: list[Tensor] = []
    oracle_losses: list[Tensor] = []
    for micro in range(spec.accumulate):
        batch = run.data.batch(step * spec.accumulate + micro, spec.batch_size)
        fault = spec.inject.kind if spec.inject and micro == 0 and step in spec.inject.steps else None
        if fault == "large_input":
            batch = with_a_large_input(batch)
        with arithmetic(run.effective.precision, run.effective.backend):
            loss, logits = forward(run.model, batch, run.effective, spec.memory_format)
            differentiated = spec.loss_factor * differentiated_loss(run, loss, logits, batch.targets)
            run.scaler.scale(differentiated / spec.accumulate).backward()
        losses.append(loss.detach())
        if run.sampler.due(step):
            run.sampler.see_logits(logits.detach(), batch.targets)
        if batch.oracle_loss is not None:
            oracle_losses.append(batch.oracle_loss)
        if fault == "inf_gradient":
            make_a_gradient_infinite(run)
    if step == 0:
        check_gradients(run)
        fell_back = run.effective.precision != spec.precision
        check_called(run.model, [] if fell_back else spec.fp32_modules, spec.layer_scales)
    mean_oracle_loss = torch.stack(oracle_losses).mean() if oracle_losses else None
    return torch.stack(losses).mean(), mean_oracle_loss


def check_gradients(run: Run) -> None:
    """Check the gradients of the first step.

    Raises:
        TrainingError: there are none, which GradScaler would take for a fault of its own; or one is sparse.
    """
    gradients = [parameter.grad for parameter in parameters(run) if parameter.grad is not None]
    if not gradients:
        raise TrainingError(f"model = {run.spec.model!r}: no parameter received a gradient; is its output detached?")
    if any(gradient.layout is not torch.strided for gradient in gradients):
        raise TrainingError(f"model = {run.spec.model!r}: a gradient is sparse; allowed: dense ones (sparse=False)")


def with_a_large_input(batch: Batch) -> Batch:
    """Inject an overflow of FP16 and of no other format: the first number of a batch becomes 2^17.

    Raises:
        TrainingError: its inputs are no numbers but tokens.
    """
    if not batch.inputs.is_floating_point():
        raise TrainingError("inject: large_input needs inputs that are numbers, such as images; these are tokens")
    inputs = batch.inputs.clone()
    inputs[(0,) * inputs.dim()] = 2.0**17
    return batch._replace(inputs=inputs)


def make_a_gradient_infinite(run: Run) -> None:
    """Inject an overflow: one element of the first gradient becomes infinite."""
    gradient = next(parameter.grad for parameter in parameters(run) if parameter.grad is not None)
    gradient[(0,) * gradient.dim()] = torch.inf


def parameters(run: Run) -> list[nn.Parameter]:
    """Return the parameters that the optimizer updates."""
    return run.optimizer.param_groups[0]["params"]
