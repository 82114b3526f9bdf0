"""while_loop: a function applied to its results for as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.higher_order import flow

__all__ = ["while_loop"]


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """carried_inputs, and then body_fn(*carried) again and again, while cond_fn(*carried) is true.

    Raises RuntimeError where body_fn gives another number of values than it takes.
    """
    recorder = flow()
    if recorder is not None:
        return recorder.while_loop(cond_fn, body_fn, carried_inputs)
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        made = body_fn(*carried)
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if len(made) != len(carried):
            raise RuntimeError(
                f"body_fn should return the same number of elements as carried_inputs, got {len(made)} and {len(carried)}"
            )
        carried = made
    return carried
