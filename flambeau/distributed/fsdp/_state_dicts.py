"""State dicts of FullyShardedDataParallel: whole, cut, or this rank's parts, under the names that modules have without wrappers.

Used by `fully_sharded_data_parallel`.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.fsdp.api import StateDictSettings, StateDictType
from flambeau.distributed.tensor._api import DTensor, distribute_tensor

__all__ = ["clean", "hook", "of_optimizer", "to_load"]

_WRAPPED = "_fsdp_wrapped_module."


def clean(name: str) -> str:
    """A name without wrappers."""
    return name.replace(_WRAPPED, "").replace("_checkpoint_wrapped_module.", "")


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
                state[key] = _as(state[key], parameter.sharded)


def _paths(wrapper: nn.Module, module: nn.Module, own: str) -> list[tuple[str, nn.Module]]:
    """The names of a module's parameter in a wrapper: as it is, and without the wrappers inside, which load later."""
    result = []
    for path, each in wrapper.named_modules():
        if each is module:
            full = f"{path}.{own}" if path else own
            inner = full.removeprefix(_WRAPPED)
            result += [(full, each), (_WRAPPED + clean(inner), each)]
    return result


def _as(value: Any, like: DTensor) -> Any:
    """A value placed as a DTensor: cut, if it is whole; taken for this rank's part if it has that shape."""
    if not isinstance(value, torch.Tensor) or isinstance(value, DTensor) or value.ndim == 0:
        return value
    if value.shape == like.shape:
        return distribute_tensor(value.detach(), like.device_mesh, like.placements, src_data_rank=None)
    if value.shape == like._local_tensor.shape:
        return DTensor(value, like._spec, requires_grad=False)
    return value


# Optimizers


def _names(model: nn.Module) -> dict[int, str]:
    for module in model.modules():
        state = getattr(module, "_fsdp_state", None)
        if state is not None and state.group is not None:
            state.group.reshard()
    return {id(parameter): clean(name) for name, parameter in model.named_parameters()}


@torch.no_grad()
def of_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, given: dict[str, Any] | None, settings: StateDictSettings
) -> dict[str, Any]:
    """An optimizer's state dict, or one that was made of it, with names in place of numbers."""
    names = _names(model)
    numbered = [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
    found = given if given is not None else optimizer.state_dict()
    config = settings.optim_state_dict_config
    def shown(value: Any) -> Any:
        # A number such as the count of steps is the optimizer's own, which goes on.
        plain = isinstance(value, torch.Tensor) and not isinstance(value, DTensor)
        return value.clone() if plain else _shown(value, settings.state_dict_type)

    state = {
        numbered[index]: {key: shown(value) for key, value in each.items()}
        for index, each in found["state"].items()
    }
    if getattr(config, "rank0_only", False) and c10d.get_rank() != 0:
        return {}
    groups = [{**group, "params": [numbered[index] for index in group["params"]]} for group in found["param_groups"]]
    return {"state": state, "param_groups": groups}


@torch.no_grad()
def to_load(model: nn.Module, optimizer: torch.optim.Optimizer, given: dict[str, Any]) -> dict[str, Any]:
    """A state dict by names as the optimizer takes it: by numbers, states cut as their parameters are."""
    names = _names(model)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = {names[id(parameter)]: index for index, parameter in enumerate(parameters)}
    missing = [name for name in given["state"] if name not in numbers]
    if missing:
        raise KeyError(f"the optimizer has no parameters of these names: {missing}")
    state = {
        numbers[name]: {key: _as(value, parameters[numbers[name]]) for key, value in each.items()}
        for name, each in given["state"].items()
    }
    groups = [{**group, "params": [numbers[name] for name in group["params"]]} for group in given["param_groups"]]
    return {"state": state, "param_groups": groups}
