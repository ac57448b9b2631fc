"""Write down the dtype of what each module, and each function that no module shows, gives in a forward pass.

A row is a call of a module without children, or else of a function of torch outside of all such modules, such as
attention, an activation or a residual addition. What happens inside of either is not seen: of attention its result, not
its softmax. Views, copies and casts that the model itself asks for are no rows.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from halfscale.study.passes import Output

CASTS = frozenset({"to", "type", "type_as", "float", "half", "bfloat16", "double", "int", "long", "bool"})
COPIES = frozenset(
    {
        *("clone", "contiguous", "reshape", "flatten", "ravel", "repeat", "repeat_interleave", "roll", "flip"),
        *("__getitem__", "index_select", "gather", "take_along_dim"),
        *("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"),
        *("new_tensor", "new_zeros", "new_ones", "new_empty", "new_full"),
    }
)
"""Functions that may give a tensor of its own and compute nothing."""


class Watch(TorchFunctionMode):
    """Sees every function of torch that Python calls, before autocast has its say; its result is after."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.outputs: list[Output] = []
        self.names = {module: name for name, module in model.named_modules()}
        self.leaves = {module for module in self.names if next(module.children(), None) is None}
        self.calls: Counter[tuple[str, str]] = Counter()
        self.within: list[nn.Module] = []

    @property
    def never_called(self) -> list[str]:
        """Modules without children that have not been called so far, in the model's order."""
        called = {output.module for output in self.outputs if not output.function}
        return [name for module, name in self.names.items() if module in self.leaves and name not in called]

    def enter(self, module: nn.Module, _: Any) -> None:
        """Note that a module begins."""
        self.within.append(module)

    def leave(self, module: nn.Module, _: Any, output: Any) -> None:
        """Note that a module ends."""
        self.within.pop()
        if module in self.leaves:
            self.note(self.names[module], type(module).__name__, function=False, output=output)

    def note(self, module: str, kind: str, *, function: bool, output: Any) -> None:
        """Write down one output."""
        self.calls[module, kind] += 1
        tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
        dtypes = dict.fromkeys(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)
        call = self.calls[module, kind]
        self.outputs.append(Output(module=module, kind=kind, function=function, call=call, dtypes=list(dtypes)))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if name in CASTS | COPIES or (self.within and self.within[-1] in self.leaves):
            return func(*args, **kwargs)
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        versions = [tensor._version for tensor in inputs]
        result = func(*args, **kwargs)
        in_place = versions != [tensor._version for tensor in inputs]
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if inputs and any(tensor.is_floating_point() for tensor in outputs) and (in_place or is_new(outputs, inputs)):
            module = self.names[self.within[-1]] if self.within else ""
            self.note(module, name.strip("_"), function=True, output=outputs)
        return result


def is_new(outputs: list[Tensor], inputs: list[Tensor]) -> bool:
    """Say whether outputs are no views of inputs, nor the inputs themselves."""
    known = {tensor.untyped_storage()._cdata for tensor in inputs}
    return all(tensor.untyped_storage()._cdata not in known for tensor in outputs)


@contextmanager
def watch_outputs(model: nn.Module) -> Iterator[Watch]:
    """Write down what a model's modules and functions give while this lasts."""
    watch = Watch(model)
    with ExitStack() as stack:
        for module in watch.names:
            stack.callback(module.register_forward_pre_hook(watch.enter).remove)
            stack.callback(module.register_forward_hook(watch.leave).remove)
        stack.enter_context(watch)
        yield watch
