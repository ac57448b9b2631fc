"""The backward pass in Python, for fake tensors of a device that is not there, which autograd's own engine refuses."""

import heapq
from collections import Counter, defaultdict
from typing import Any

import torch
from torch import Tensor


@torch.no_grad()
def walk_back(root: list[Any], gradient: Tensor) -> None:
    """Carry a gradient from a node of the graph to the leaves, in the engine's order: last made, first walked.

    A node's saved tensors are freed as soon as it was walked, provided that the caller holds no tensor of the graph.
    Hooks on tensors and nodes do not run.

    Args:
        root: a list of `loss.grad_fn`, which is emptied; the caller must keep neither it nor the loss.
        gradient: of the loss.
    """
    first = root.pop()
    waiting = count_uses(first)
    given: dict[int, list[Tensor | None]] = defaultdict(list)
    given[key_of(first)] = [gradient]
    ready = [(-key_of(first), [first])]  # a list, so that the heap can let go of the node
    del first, gradient
    while ready:
        key, held = heapq.heappop(ready)
        node = held.pop()
        gradients = given.pop(-key)
        results = node(*gradients)
        del gradients
        edges = list(node.next_functions)
        del node
        results = list(results) if isinstance(results, tuple) else [results]
        for index, (following, slot) in enumerate(edges):
            result, results[index] = results[index], None
            if following is None:
                continue
            if hasattr(following, "variable"):
                accumulate(following.variable, result)
                continue
            target = key_of(following)
            inputs = given[target] or [None] * len(following._input_metadata)
            if result is not None:
                result = result.sum_to_size(following._input_metadata[slot].shape)
                before = inputs[slot]
                inputs[slot] = result if before is None else before + result
            given[target] = inputs
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, (-target, [following]))
            del result, inputs, following
        edges.clear()


def count_uses(root: Any) -> Counter[int]:
    """Return by node how many edges lead to it. Holds no node after."""
    uses: Counter[int] = Counter()
    seen, todo = {key_of(root)}, [root]
    while todo:
        for following, _ in todo.pop().next_functions:
            if following is None or hasattr(following, "variable"):
                continue
            key = key_of(following)
            uses[key] += 1
            if key not in seen:
                seen.add(key)
                todo.append(following)
    return uses


def key_of(node: Any) -> int:
    """Return the number that a node got when it was made, higher for a later one."""
    return int(node._sequence_nr())


def accumulate(variable: Tensor, gradient: Tensor | None) -> None:
    """Add a gradient to a leaf's."""
    if gradient is not None:
        # A sum that was broadcast, and a cast that autocast did, in the forward pass.
        gradient = gradient.sum_to_size(variable.shape).to(variable.dtype)
        variable.grad = gradient if variable.grad is None else variable.grad + gradient
