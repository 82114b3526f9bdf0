"""torch.distributed.pipelining._backward: the backward of a stage in two parts, of what came in and of the weights.

The first part computes the gradients of the inputs, which the stage before waits for, and keeps those that arrive where weights
branch off the way to the inputs; the second goes on from there to the weights (Qi et al. 2023, "Zero Bubble Pipeline
Parallelism"). A weight that several such places lead to is done with the first part. Used by `stage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import flambeau as torch

__all__ = ["stage_backward", "stage_backward_input", "stage_backward_weight"]


def _edge(tensor: torch.Tensor) -> Any:
    return torch.autograd.graph.get_gradient_edge(tensor) if isinstance(tensor, torch.Tensor) and tensor.requires_grad else None


def stage_backward(
    stage_output: Any, output_grads: Any, input_values: Sequence[Any], outputs_with_grads_idxs: list[int] | None = None
) -> tuple[torch.Tensor | None, ...]:
    """Both parts at once: gradients are added to the weights. Returns those of the inputs.

    stage_output: tensors, nested in tuples, lists and dicts, or a loss. output_grads: a gradient for each, None for a loss. What
    needs no gradient is passed over. outputs_with_grads_idxs: only these of the outputs.
    """
    outputs = list(_tensors(stage_output))
    given = [None] * len(outputs) if output_grads is None else list(_tensors(output_grads))
    if outputs_with_grads_idxs is not None:
        outputs, given = ([each[k] for k in outputs_with_grads_idxs] for each in (outputs, given))
    pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if isinstance(o, torch.Tensor) and o.requires_grad]
    if pairs:
        torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])
    return tuple(value.grad if isinstance(value, torch.Tensor) else None for value in input_values)


def _in_places(found: Iterable[Any], values: Sequence[Any]) -> Iterator[Any]:
    """For each edge the gradient that was found, None where there is no edge."""
    gradients = iter(found)
    for value in values:
        yield None if value is None else next(gradients)


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    else:
        yield value


class _Reach:
    """Which nodes of a graph lead to some others."""

    def __init__(self, roots: Iterable[Any], targets: set[Any]) -> None:
        self.leads: dict[Any, bool] = {}
        self.order: list[Any] = []  # the nodes in front of a node come after it
        for root in roots:
            self._walk(root, targets)

    def _walk(self, root: Any, targets: set[Any]) -> None:
        stack = [(root, False)]
        while stack:
            node, seen = stack.pop()
            following = [each for each, _ in node.next_functions if each is not None]
            if seen:
                self.leads[node] = node in targets or any(self.leads.get(each, False) for each in following)
                self.order.append(node)
            elif node not in self.leads:
                self.leads[node] = False
                stack.append((node, True))
                stack += [(each, False) for each in following if each not in self.leads]


def _branches(roots: list[Any], inputs: set[Any], weights: set[Any]) -> dict[Any, set[Any]]:
    """The places where weights branch off the way to inputs, and outputs that lead to weights only: with the weights of each."""
    to_inputs, to_weights = _Reach(roots, inputs), _Reach(roots, weights)
    behind: dict[Any, set[Any]] = {}  # of nodes off the way: the weights that they lead to
    result: dict[Any, set[Any]] = {}
    for node in to_weights.order:
        off = [behind.get(each, set()) for each, _ in node.next_functions if each is not None and not to_inputs.leads[each]]
        own = {node} if node in weights else set()
        found = own.union(*off)
        if to_inputs.leads[node]:
            if found:
                result[node] = found
        else:
            behind[node] = found
    for root in roots:
        if not to_inputs.leads[root] and behind.get(root):
            result[root] = behind[root]
    return result


def stage_backward_input(
    stage_outputs_or_loss: Sequence[torch.Tensor],
    output_grads: Sequence[torch.Tensor | None] | None,
    input_values: Sequence[Any],
    weights: Iterable[torch.nn.Parameter],
) -> tuple[tuple[torch.Tensor | None, ...], list[dict[str, Any]]]:
    """The inputs' part. Returns the gradients of the inputs, which have them too, None for one that needs none.

    With them it returns what the second part needs.
    """
    outputs = [each for each in stage_outputs_or_loss if isinstance(each, torch.Tensor)]
    given = [None] * len(outputs) if output_grads is None else list(output_grads)
    pairs = [
        (output, torch.ones_like(output) if gradient is None else gradient)
        for output, gradient in zip(outputs, given, strict=True)
        if output.requires_grad
    ]
    edges = [_edge(value) for value in input_values]
    by_node = {edge.node: weight for weight in weights if (edge := _edge(weight)) is not None}
    roots = list(dict.fromkeys(torch.autograd.graph.get_gradient_edge(output).node for output, _ in pairs))
    branches = _branches(roots, {edge.node for edge in edges if edge is not None}, set(by_node))
    shared = [w for w in by_node if sum(w in found for found in branches.values()) > 1]
    groups = [
        {"intermediates": node, "params": [by_node[w] for w in by_node if w in found and w not in shared], "grads": None}
        for node, found in branches.items()
    ]
    groups = [group for group in groups if group["params"]]
    wanted = [edge for edge in edges if edge is not None]
    eager = [torch.autograd.graph.get_gradient_edge(by_node[w]) for w in shared]
    found = _gradients(pairs, wanted + eager, groups)
    _add(zip((by_node[w] for w in shared), found[len(wanted) :], strict=True))
    _add(zip((value for value, edge in zip(input_values, edges, strict=True) if edge is not None), found, strict=False))
    return tuple(_in_places(found, edges)), groups


def _gradients(pairs: list[Any], edges: list[Any], groups: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The gradients that arrive at edges; those that arrive at groups' nodes on the way are kept in the groups."""
    arriving: dict[Any, list[Any]] = {}
    for output, gradient in pairs:  # an output that is the place itself is given its gradient, and has no way behind it
        edge = torch.autograd.graph.get_gradient_edge(output)
        arriving.setdefault(edge.node, []).append((edge.output_nr, gradient))

    def keep(group: dict[str, Any]) -> Any:
        def hook(gradients: tuple[Any, ...]) -> None:
            group["grads"] = gradients

        return group["intermediates"].register_prehook(hook)

    handles = [keep(group) for group in groups]
    try:
        found: tuple[Any, ...] = ()
        if edges:
            outputs, gradients = [o for o, _ in pairs], [g for _, g in pairs]
            found = torch.autograd.grad(outputs, edges, gradients, retain_graph=True, allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    for group in groups:
        if group["grads"] is None:
            group["grads"] = _placed(arriving.get(group["intermediates"], []))
    return found


def _placed(arrived: list[tuple[int, torch.Tensor]]) -> tuple[Any, ...]:
    places: list[Any] = [None] * (1 + max((number for number, _ in arrived), default=-1))
    for number, gradient in arrived:
        places[number] = gradient if places[number] is None else places[number] + gradient
    return tuple(places)


def _add(found: Iterable[tuple[Any, Any]]) -> None:
    """Adds gradients to those that parameters have."""
    with torch.no_grad():
        for parameter, gradient in found:
            if gradient is not None:
                parameter.grad = gradient.detach() if parameter.grad is None else parameter.grad + gradient


def stage_backward_weight(
    weights: Iterable[torch.nn.Parameter], param_groups: list[dict[str, Any]], retain_graph: bool = False
) -> tuple[torch.Tensor | None, ...]:
    """The weights' part, of what the inputs' part returned: gradients are added to the weights. Returns them for `weights`."""
    found: dict[int, Any] = {}
    for group in param_groups:
        node, gradients = group["intermediates"], group["grads"]
        there = [number for number, gradient in enumerate(gradients or ()) if gradient is not None]
        if not there:
            continue
        edges = [torch.autograd.graph.get_gradient_edge(parameter) for parameter in group["params"]]
        starts = [torch.autograd.graph.GradientEdge(node, number) for number in there]
        made = torch.autograd.grad(starts, edges, [gradients[number] for number in there], retain_graph=True, allow_unused=True)
        found.update({id(parameter): gradient for parameter, gradient in zip(group["params"], made, strict=True)})
        _add(zip(group["params"], made, strict=True))
        if not retain_graph:
            group["intermediates"] = group["grads"] = None
    if not retain_graph:
        param_groups.clear()
    return tuple(found.get(id(weight)) for weight in weights)
