"""Names of parameters in state dicts, with no trace of what wraps modules, and optimizers' states by them rather than by numbers.

Wrappers put a name of theirs before those of the module inside; a checkpoint must not depend on which there are. Stands on
`tensor`; `checkpoint.state_dict` and `fsdp` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import _CHECKPOINT_WRAPPED_MODULE
from flambeau.distributed.tensor._api import DTensor, distribute_tensor

__all__ = [
    "FSDP_WRAPPED_MODULE", "clean_name", "numbered_states", "parameter_names", "placed_like", "reshard_modules",
    "states_by_name", "unwrapped_name",
]  # fmt: skip

FSDP_WRAPPED_MODULE = "_fsdp_wrapped_module"
_COMPILED_MODULE = "_orig_mod"
_WRAPPERS = (FSDP_WRAPPED_MODULE, _CHECKPOINT_WRAPPED_MODULE, _COMPILED_MODULE)


def clean_name(name: str) -> str:
    """A name without the parts that only wrappers use. What follows a wrapper's own `module` needs `unwrapped_name`."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def unwrapped_name(model: nn.Module, name: str) -> str:
    """A name in a model without all wrappers on its way, `module` of data parallel modules among them."""
    from flambeau.nn.parallel import DataParallel, DistributedDataParallel

    kept = []
    module: Any = model
    for part in name.split("."):
        if not (isinstance(module, (DataParallel, DistributedDataParallel)) and part == "module"):
            kept.append(part)
        module = getattr(module, part, None)
    return clean_name(".".join(kept))


def reshard_modules(model: nn.Module) -> None:
    """Has fully sharded modules hold their parts, if whole parameters are there still."""
    for module in model.modules():
        state = getattr(module, "_fsdp_state", None)
        if state is not None and state.group is not None:
            state.group.reshard()


def parameter_names(model: nn.Module) -> dict[int, str]:
    """The name of each parameter, its first where it has several, by the parameter's id()."""
    reshard_modules(model)
    return {id(parameter): unwrapped_name(model, name) for name, parameter in model.named_parameters()}


@torch.no_grad()
def placed_like(value: Any, like: Any) -> Any:
    """A value that is loaded into `like`, or belongs to it: a whole tensor, or this rank's part of one, as a DTensor cut so.

    What is no tensor, has no dimensions, or a shape that fits neither stays as it is.
    """
    if not isinstance(like, DTensor) or not isinstance(value, torch.Tensor) or isinstance(value, DTensor):
        return value
    if value.ndim == 0:
        return value
    if value.shape == like.shape:
        return distribute_tensor(value.detach(), like.device_mesh, like.placements, src_data_rank=None)
    if value.shape == like._local_tensor.shape:
        return DTensor(value.detach(), like._spec, requires_grad=False)
    return value


# Optimizers


def _name_of(parameter: torch.Tensor, names: Mapping[int, str]) -> str:
    name = names.get(id(parameter))
    if name is None:
        raise KeyError(f"the optimizer has a parameter of {tuple(parameter.shape)} that the model has not")
    return name


def states_by_name(
    optimizer: torch.optim.Optimizer, found: Mapping[str, Any], names: Mapping[int, str], shown: Callable[[Any], Any]
) -> dict[str, Any]:
    """An optimizer's state dict, or one like it, by names; `shown` makes each value. KeyError for a parameter without a name."""
    numbered = [_name_of(parameter, names) for group in optimizer.param_groups for parameter in group["params"]]
    state = {numbered[index]: {key: shown(value) for key, value in each.items()} for index, each in found["state"].items()}
    groups = [{**group, "params": [numbered[index] for index in group["params"]]} for group in found["param_groups"]]
    return {"state": state, "param_groups": groups}


def numbered_states(optimizer: torch.optim.Optimizer, found: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """A state dict by names as the optimizer's load_state_dict takes it: by numbers, states placed as their parameters are.

    Groups are the optimizer's; their settings are those that any of their parameters had.
    """
    state: dict[int, Any] = {}
    groups = []
    index = 0
    settings = {name: group for group in found["param_groups"] for name in group["params"]}
    for group in optimizer.param_groups:
        own = [_name_of(parameter, names) for parameter in group["params"]]
        for number, (parameter, name) in enumerate(zip(group["params"], own, strict=True), index):
            if name in found["state"]:
                state[number] = {key: placed_like(value, parameter) for key, value in found["state"][name].items()}
        saved = next((settings[name] for name in own if name in settings), {})
        groups.append({**group, **saved, "params": list(range(index, index + len(own)))})
        index += len(own)
    return {"state": state, "param_groups": groups}
