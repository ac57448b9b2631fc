"""Trace one training step of any size by fake tensors: nothing is computed and no memory is allocated.

A trace holds every storage that the step allocates and frees, in order, and every operation with its FLOP and bytes.
CPU autocast and CUDA autocast keep different tensors, so the step is traced as the one or the other, on any machine.
"""

import gc
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from halfscale.errors import UserError
from halfscale.instruments.count_flops import FORMULAS, is_uncounted
from halfscale.instruments.forward import is_a_librarys, name_of
from halfscale.instruments.setup import TrainingError, known_fp32, make_optimizer
from halfscale.instruments.walk_back import walk_back
from halfscale.numerics.cuda_autocast import CudaAttention, cuda_autocast
from halfscale.numerics.precision import AUTOCAST
from halfscale.study.step import Image, Kind, Predicted, Step
from halfscale.workloads.registry import build_model

Accounting = Literal["cpu", "cuda"]

HALF = (torch.float16, torch.bfloat16)


@dataclass
class Operation:
    """One operation of a step that does work: a view, or memory that is asked for and not yet written, does none."""

    name: str
    """Such as aten.convolution.default."""
    flops: int
    """2 a multiply-add; 0 for all but convolutions, products and attention."""
    bytes: int
    """Of all its inputs and outputs, each once."""
    half: bool
    """Whether it computes on 16-bit operands."""


@dataclass
class StepTrace:
    """What one training step allocates, frees and computes."""

    sizes: list[int] = field(default_factory=list)
    """Bytes of each storage."""
    kinds: list[Kind] = field(default_factory=list)
    """What each storage is for."""
    makers: dict[int, str] = field(default_factory=dict)
    """Name of the operation that a storage came from, where one of the step's own made it."""
    events: list[tuple[int, bool]] = field(default_factory=list)
    """(storage, True where allocated and False where freed), in order."""
    saved: set[int] = field(default_factory=set)
    """Storages that the forward pass saved for the backward pass; weights and buffers are not among them."""
    operations: list[Operation] = field(default_factory=list)
    """In order."""
    uncounted: list[str] = field(default_factory=list)
    """Names of those that may do much arithmetic and have no formula, so that their FLOP are not known."""
    parameters: int = 0
    """Number of parameters of the model."""

    @property
    def saved_bytes(self) -> int:
        """Bytes saved for the backward pass, each storage once."""
        return sum(self.sizes[storage] for storage in self.saved)


class Tracer(TorchDispatchMode):
    """Writes down the storages and the operations of what runs under it."""

    def __init__(self) -> None:
        super().__init__()
        self.trace = StepTrace()
        self.counting = False
        self.numbers: dict[int, int] = {}  # by the address of a storage that is alive
        self.weights: set[int] = set()
        self.references: list[Any] = []

    def number(self, tensor: Tensor, kind: Kind | None = None) -> int:
        """Return the number of a tensor's storage, new where it was not seen; a kind given is the kind it keeps."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self.numbers:
            number = len(self.trace.sizes)
            self.numbers[address] = number
            self.trace.sizes.append(storage.nbytes())
            self.trace.kinds.append("temporaries")
            self.trace.events.append((number, True))
            self.references.append(weakref.ref(storage, lambda _: self.freed(address)))
        number = self.numbers[address]
        if kind is not None:
            self.trace.kinds[number] = kind
        return number

    def freed(self, address: int) -> None:
        """Note that a storage is gone; of several that go at once, such as autocast's copies, in the order they came."""
        events, number = self.trace.events, self.numbers.pop(address)
        at = len(events)
        while at and not events[at - 1][1] and events[at - 1][0] > number:
            at -= 1
        events.insert(at, (number, False))

    def save(self, tensor: Tensor) -> Tensor:
        """Note a tensor that is saved for the backward pass."""
        number = self.number(tensor)
        if self.trace.kinds[number] in ("temporaries", "inputs", "activations", "weight_copies"):
            self.trace.saved.add(number)
        if self.trace.kinds[number] == "temporaries":
            self.trace.kinds[number] = "activations"
        return tensor.detach()  # the tensor itself, where it is its own operation's output, would hold itself alive

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        known = {self.number(tensor) for tensor in inputs}
        for tensor in outputs:
            number = self.number(tensor)
            if number not in known:
                self.trace.makers.setdefault(number, str(func))
            cast = func is torch.ops.aten._to_copy.default and tensor.dtype in HALF
            if cast and number not in known and known & self.weights:
                self.trace.kinds[number] = "weight_copies"
        if self.counting:
            self.count(func, args, kwargs, result, inputs, outputs)
        return result

    def count(
        self, func: Any, args: Any, kwargs: Any, result: Any, inputs: list[Tensor], outputs: list[Tensor]
    ) -> None:
        """Note an operation's FLOP and bytes."""
        storages = {tensor.untyped_storage()._cdata for tensor in inputs}
        made = [tensor for tensor in outputs if tensor.untyped_storage()._cdata not in storages]
        written = written_by(func, args, kwargs) if func._schema.is_mutable else made
        if not inputs or not written:
            return
        if is_uncounted(func, (args, kwargs)):
            self.trace.uncounted.append(str(func))
        formula = FORMULAS.get(func._overloadpacket)
        flops = int(formula(*args, **kwargs, out_val=result)) if formula else 0
        read = {id(tensor): tensor for tensor in inputs}.values()
        half = any(tensor.dtype in HALF for tensor in inputs)
        self.trace.operations.append(Operation(str(func), flops, sum(map(nbytes, [*read, *written])), half))


def written_by(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """Return the tensors that an operation changes in place, or writes to."""
    changed = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            changed += [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
    return changed


def nbytes(tensor: Tensor) -> int:
    """Return the bytes that a tensor's elements take, those of an expanded one once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def trace_step(step: Step, precision: Predicted, accounting: Accounting, batch_size: int) -> StepTrace:
    """Trace forward pass, backward pass and update of one step, the optimizer's state already there.

    Raises:
        TrainingError: the model cannot be built, has nothing to train, looks at the values of tensors, or raised. The
            cause is kept where its own code raised in building the model or in its forward pass.
    """
    collecting = gc.isenabled()
    gc.disable()  # what is freed must be so because nothing holds it, at the same place in every trace
    try:
        # On CUDA torch takes foreach by itself, but for real tensors alone.
        for foreach in (True, False) if accounting == "cuda" else (False,):
            with suppress(DataDependentOutputException), FakeTensorMode(), torch.device(accounting):
                return trace_fake_step(step, precision, accounting, batch_size, foreach)
        # Where torch cannot step a fake optimizer by foreach, weight after weight was tried too.
        raise TrainingError("the model looks at the values of tensors, which a prediction does not have")
    except UserError as error:
        raise TrainingError(f"{step.name}: {error}") from error.__cause__
    except Exception as error:  # whatever torch raises on fake tensors of a model that does not suit them
        raise TrainingError(
            f"{step.name}: {precision} at batch size {batch_size} cannot be traced as on {accounting}: {told(error)}"
        ) from None
    finally:
        if collecting:
            gc.enable()


def trace_fake_step(
    step: Step, precision: Predicted, accounting: Accounting, batch_size: int, foreach: bool
) -> StepTrace:
    model = known_fp32(step.model, build_model(step.model, step.model_args))
    optimizer = make_optimizer(step.optimizer, model, foreach=foreach)
    for parameter in model.parameters():
        parameter.grad = torch.empty_like(parameter)
    update(optimizer)  # makes the state
    optimizer.zero_grad()
    inputs, targets = make_batch(step, batch_size)

    tracer = Tracer()
    tracer.trace.parameters = sum(parameter.numel() for parameter in model.parameters())
    for tensor in [*model.parameters(), *model.buffers()]:
        tracer.weights.add(tracer.number(tensor, "weights"))
    for state in optimizer.state.values():
        for tensor in state.values():
            if isinstance(tensor, Tensor):
                tracer.number(tensor, "optimizer")
    for tensor in (inputs, targets):
        tracer.number(tensor, "inputs")

    tracer.counting = True
    with tracer:
        with saved_tensors_hooks(tracer.save, lambda tensor: tensor), autocast(precision, accounting):
            logits = call(model, inputs)
        with saved_tensors_hooks(tracer.save, lambda tensor: tensor):
            loss = cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
        del logits
        if loss.grad_fn is None:
            raise TrainingError("the model's output depends on no parameter that trains; is it detached?")
        gradient, root = torch.ones_like(loss), [loss.grad_fn]
        if accounting == "cpu":
            loss.backward(gradient)
            root.clear()
            del loss, gradient
        else:
            del loss
            walk_back(root, gradient)
        for parameter in model.parameters():
            if parameter.grad is not None:
                tracer.number(parameter.grad, "gradients")
        update(optimizer)
        optimizer.zero_grad()
    # A copy of the events: what goes when this function ends is no part of the step.
    return replace(tracer.trace, events=list(tracer.trace.events))


def call(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return a model's logits.

    Raises:
        TrainingError: it raised, or gives no logits; the cause is kept where the model is the user's own.
    """
    try:
        logits = model(inputs)
    except DataDependentOutputException:
        raise
    except Exception as error:  # whatever a model raises on inputs that do not suit it
        shape = f"{tuple(inputs.shape)} {name_of(inputs)}"
        # Where a kernel has no fake, torch looks for the device itself, and the user has nothing to mend either.
        theirs = not is_a_librarys(model) and not isinstance(error, torch.AcceleratorError)
        raise TrainingError(f"the model raised {told(error)} on inputs {shape}") from (error if theirs else None)
    if not isinstance(logits, Tensor):
        raise TrainingError(f"the model gives a {type(logits).__name__}; a tensor of logits (..., classes) is needed")
    return logits


def told(error: Exception) -> str:
    """Return an error's kind and its first line."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def update(optimizer: Optimizer) -> None:
    """Take an optimizer's step, whose count of steps lies on the CPU whatever the device of the weights."""
    with torch.device("cpu"):
        optimizer.step()


def make_batch(step: Step, batch_size: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of the right shapes."""
    if isinstance(step.input, Image):
        shape = (batch_size, step.input.channels, step.input.size, step.input.size)
        return torch.empty(shape), torch.zeros(batch_size, dtype=torch.int64)
    tokens = torch.zeros(batch_size, step.input.length, dtype=torch.int64)
    return tokens, torch.zeros_like(tokens)


@contextmanager
def autocast(precision: Predicted, accounting: Accounting) -> Iterator[None]:
    """Be under the autocast of a precision as the CPU or as CUDA has it."""
    dtype = AUTOCAST.get(precision)
    with ExitStack() as stack:
        if accounting == "cpu":
            stack.enter_context(torch.autocast("cpu", dtype=dtype, enabled=dtype is not None))
        else:
            stack.enter_context(cuda_autocast(dtype))
            stack.enter_context(CudaAttention())
        yield
