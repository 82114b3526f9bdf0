"""What nodes give that need no input. Stands on fx's nodes; used by convert and lower."""

from __future__ import annotations

from typing import Any

from flambeau.fx import Node

__all__ = ["constant_value"]


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
