"""State dicts of FullyShardedDataParallel: whole, cut, or this rank's parts, under the names that modules have without wrappers.

Used by `fully_sharded_data_parallel`.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.fsdp.api import StateDictSettings, StateDictType
from flambeau.distributed.state_names import (
    FSDP_WRAPPED_MODULE,
    clean_name,
    numbered_states,
    parameter_names,
    placed_like,
    states_by_name,
)
from flambeau.distributed.tensor._api import DTensor

__all__ = ["hook", "of_optimizer", "to_load"]

_WRAPPED = f"{FSDP_WRAPPED_MODULE}."


def hook(wrapper: Any) -> None:
    """Has a wrapper's state dicts made and loaded as its settings say."""
    wrapper.register_state_dict_pre_hook(lambda own, *_: _reshard(own))
    wrapper._register_state_dict_hook(_made)
    wrapper._register_load_state_dict_pre_hook(_loaded, with_module=True)


def _reshard(wrapper: Any) -> None:
    if wrapper._fsdp_state.group is not None and not wrapper._summoned:
        wrapper._fsdp_state.group.reshard()


def _shown(value: Any, kind: StateDictType) -> Any:
    """A tensor as state dicts of a kind hold it."""
    if not isinstance(value, DTensor):
        return value
    if kind is StateDictType.FULL_STATE_DICT:
        return value.full_tensor()
    return value if kind is StateDictType.SHARDED_STATE_DICT else value.to_local()


@torch.no_grad()
def _made(wrapper: Any, state: dict[str, Any], prefix: str, _: Any) -> dict[str, Any]:
    settings: StateDictSettings = wrapper._settings
    absent = getattr(settings.state_dict_config, "rank0_only", False) and c10d.get_rank() != 0
    for name in [name for name in state if name.startswith(prefix)]:
        value = state.pop(name)
        shown = _shown(value, settings.state_dict_type)
        if not absent:
            state[prefix + name[len(prefix) :].removeprefix(_WRAPPED)] = shown
    return state


@torch.no_grad()
def _loaded(wrapper: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Puts the wrapper's name back, and cuts what is whole as its parameter is."""
    _reshard(wrapper)
    for name in [name for name in state if name.startswith(prefix)]:
        state[prefix + _WRAPPED + name[len(prefix) :]] = state.pop(name)
    group = wrapper._fsdp_state.group
    for parameter in group.parameters if group is not None else ():
        for module, own in parameter.owners:
            key = next((prefix + path for path, found in _paths(wrapper, module, own) if prefix + path in state), None)
            if key is not None:
                state[key] = placed_like(state[key], parameter.sharded)


def _paths(wrapper: nn.Module, module: nn.Module, own: str) -> list[tuple[str, nn.Module]]:
    """The names of a module's parameter in a wrapper: as it is, and without the wrappers inside, which load later."""
    result = []
    for path, each in wrapper.named_modules():
        if each is module:
            full = f"{path}.{own}" if path else own
            inner = full.removeprefix(_WRAPPED)
            result += [(full, each), (_WRAPPED + clean_name(inner), each)]
    return result


# Optimizers


@torch.no_grad()
def of_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, given: dict[str, Any] | None, settings: StateDictSettings
) -> dict[str, Any]:
    """An optimizer's state dict, or one that was made of it, with names in place of numbers."""

    def shown(value: Any) -> Any:
        # A number such as the count of steps is the optimizer's own, which goes on.
        plain = isinstance(value, torch.Tensor) and not isinstance(value, DTensor)
        return value.clone() if plain else _shown(value, settings.state_dict_type)

    found = given if given is not None else optimizer.state_dict()
    result = states_by_name(optimizer, found, parameter_names(model), shown)
    absent = getattr(settings.optim_state_dict_config, "rank0_only", False) and c10d.get_rank() != 0
    return {} if absent else result


def to_load(model: nn.Module, optimizer: torch.optim.Optimizer, given: dict[str, Any]) -> dict[str, Any]:
    """A state dict by names as the optimizer takes it. KeyError for names that none of its parameters has."""
    names = parameter_names(model)
    known = {names.get(id(parameter)) for group in optimizer.param_groups for parameter in group["params"]}
    unknown = [name for name in given["state"] if name not in known]
    if unknown:
        raise KeyError(f"the optimizer has no parameters of these names: {unknown}")
    return numbered_states(optimizer, given, names)
