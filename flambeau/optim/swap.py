"""Temporarily lets an optimizer work on other parameters and another state. Stands on optimizer.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import Optimizer

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Within the context, `optimizer` has the given parameters and state; its own are put back on leaving.

    Args:
        optimizer: has taken at least one step.
        swapin_parameters: tensors in the order of the optimizer's own parameters.
        swapin_optim_state: what `state_dict` would return; its tensors are updated in place, nothing else is.

    Raises:
        RuntimeError: no state yet, or groups, options or numbers of parameters that differ from the optimizer's.
    """
    groups = _swapped_groups(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    parameters = {
        number: parameter
        for saved, group in zip(swapin_optim_state["param_groups"], groups)
        for number, parameter in zip(saved["params"], group["params"])
    }
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, value in swapin_optim_state["state"].items():
        state[parameters.get(key, key)] = dict(value) if isinstance(value, dict) else value
    own = optimizer.param_groups, optimizer.state
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = own


def _swapped_groups(optimizer: Optimizer, parameters: list[Tensor], state: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameter groups of `state` with `parameters` in place of their numbers."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    live_groups = optimizer.param_groups
    if len(parameters) != sum(len(group["params"]) for group in live_groups):
        raise RuntimeError(f"{_NAME} requires the explicit parameter state to match optimizer.param_groups ordering.")
    saved_groups = state.get("param_groups")
    if not isinstance(saved_groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group dicts, "
            f"got {type(saved_groups).__name__}."
        )
    if len(saved_groups) != len(live_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    remaining = iter(parameters)
    groups = []
    for number, (saved, live) in enumerate(zip(saved_groups, live_groups)):
        if len(saved["params"]) != len(live["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {number} has a different number of params than the live optimizer param group."
            )
        if saved.keys() != live.keys():
            raise RuntimeError(
                f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match the live optimizer "
                f"group keys for group {number}. Keys only in swap-in: {[key for key in saved if key not in live]}. "
                f"Keys only in live: {[key for key in live if key not in saved]}."
            )
        groups.append(saved | {"params": [next(remaining) for _ in live["params"]]})
    return groups
