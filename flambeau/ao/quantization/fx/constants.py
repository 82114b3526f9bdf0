"""What nodes give that need no input. Stands on fx's nodes; used by convert and lower."""

from __future__ import annotations

from typing import Any

from flambeau.fx import Graph, GraphModule, Node

__all__ = ["constant_value", "constants"]


def constant_value(node: Any, model: Any, modules: dict[str, Any]) -> Any:
    """The value of a node that comes from attributes only; None for one that needs an input."""
    if not isinstance(node, Node):
        return node
    if node.op == "placeholder":
        return None
    if node.op == "get_attr":
        value: Any = model
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value
    args = [constant_value(each, model, modules) for each in node.args]
    kwargs = {name: constant_value(each, model, modules) for name, each in node.kwargs.items()}
    for each, value in [*zip(node.args, args), *((node.kwargs[n], v) for n, v in kwargs.items())]:
        if isinstance(each, Node) and value is None:
            return None
    if node.op == "call_module":
        return modules[str(node.target)](*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    function: Any = node.target
    return function(*args, **kwargs)


def constants(weight: Node, bias: Any, model: GraphModule) -> list[Any]:
    """The attributes of which a weight and a bias are made, the largest first; a weight alone is followed by None."""
    pending = [each for each in (weight, bias) if isinstance(each, Node)]
    found = list(pending)
    while pending:
        inputs = pending.pop().all_input_nodes
        found += inputs
        pending += inputs
    graph = Graph()
    for node in reversed(found):
        if node.op == "get_attr":
            graph.get_attr(str(node.target))
    graph.output(None)
    made = sorted(GraphModule(model, graph).state_dict().values(), key=lambda value: value.numel(), reverse=True)
    return made if len(made) > 1 else [*made, None]
