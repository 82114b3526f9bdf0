"""torch.fx.annotate: a type for a proxy's node."""

from __future__ import annotations

from typing import Any

from flambeau.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: type) -> Any:
    """Give a proxy's node a type, which shows in the code; returns `val`. Raises RuntimeError for another type than it has."""
    if isinstance(val, Proxy):
        if val.node.type and val.node.type is not type:
            raise RuntimeError(
                "Tried to annotate a value that already had a type on it! Existing type is "
                f"{val.node.type} and new type is {type}. This could happen if you tried to annotate a function parameter "
                "value (in which case you should use the type slot on the function signature) or you called annotate on "
                "the same value twice"
            )
        val.node.type = type
    return val
