"""torch._prims.rng_prims: higher-order operators that keep the random state in front of a call, and call with a kept one.

Under make_fx they are one operator each, so that a recorded program repeats its random numbers. Stands on dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.dispatcher.overloads import HigherOrderOperator

__all__ = ["run_and_save_rng_state", "run_with_rng_state"]


def _save(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    """(the random state before the call, its result)."""
    return torch.get_rng_state(), operator(*args, **kwargs)


def _with_state(state: torch.Tensor, operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call with a random state; the one that there is stays."""
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        return operator(*args, **kwargs)
    finally:
        torch.set_rng_state(before)


run_and_save_rng_state = HigherOrderOperator("run_and_save_rng_state", _save)
run_with_rng_state = HigherOrderOperator("run_with_rng_state", _with_state)
