"""torch.distributed.checkpoint.state_dict: state dicts of models and optimizers under the names that the models have undivided.

Wrappers (DistributedDataParallel, FullyShardedDataParallel, compiled and checkpointed modules) leave no trace in names, and
optimizers' states go by their parameters' names: so what one way of dividing a model saved, another loads. Used with `save` and
`load`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import flambeau as torch
from flambeau import nn
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.tensor._api import DTensor, distribute_tensor

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip

_WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


@dataclass
class StateDictOptions:
    """What a state dict holds, and how strictly it is loaded.

    full_state_dict: whole tensors rather than DTensors; with `cpu_offload` on the first rank only, the others get an empty dict.
    ignore_frozen_params: without parameters that need no gradient. strict: names have to match when a model's is loaded.
    broadcast_from_rank0: what is loaded is the first rank's, whole. flatten_optimizer_state_dict: one dict by joined names.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


class IncompatibleKeys(NamedTuple):
    """The names that were missing, and those that nothing has."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _clean(model: nn.Module, name: str) -> str:
    """A name without the wrappers on its way."""
    from flambeau.nn.parallel import DataParallel, DistributedDataParallel

    kept = []
    module: Any = model
    for part in name.split("."):
        wrapper = isinstance(module, (DataParallel, DistributedDataParallel)) and part == "module"
        if not wrapper and part not in _WRAPPERS:
            kept.append(part)
        module = getattr(module, part, None)
    return ".".join(kept)


def _settle(model: nn.Module) -> None:
    """Has fully sharded modules register their parts."""
    for module in model.modules():
        state = getattr(module, "_fsdp_state", None)
        if state is not None and state.group is not None:
            state.group.reshard()


def _entries(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and lasting buffers, as often as modules have them, by clean names."""
    _settle(model)
    for path, module in model.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield _clean(model, prefix + name), parameter
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                yield _clean(model, prefix + name), buffer


def _first_rank() -> bool:
    return not c10d.is_initialized() or c10d.get_rank() == 0


@torch.no_grad()
def _shown(value: Any, options: StateDictOptions) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    return value.full_tensor() if options.full_state_dict and isinstance(value, DTensor) else value


def get_model_state_dict(
    model: nn.Module, *, submodules: set[nn.Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's state dict; tensors of divided models are DTensors, or whole if the options say so. Every rank calls it."""
    options = _checked(options)
    chosen = None if submodules is None else {id(each) for part in submodules for each in _values_of(part)}
    result = {
        name: _shown(value, options)
        for name, value in _entries(model)
        if (chosen is None or id(value) in chosen)
        and not (options.ignore_frozen_params and isinstance(value, nn.Parameter) and not value.requires_grad)
    }
    for path, module in model.named_modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            result[_clean(model, f"{path}._extra_state" if path else "_extra_state")] = module.get_extra_state()
    return result if _keeps(options) else {}


def _values_of(module: nn.Module) -> Iterable[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _keeps(options: StateDictOptions) -> bool:
    """Whether this rank gets what is whole."""
    return not (options.full_state_dict and options.cpu_offload) or _first_rank()


def _optimizers(optimizers: Any) -> list[torch.optim.Optimizer]:
    return [optimizers] if isinstance(optimizers, torch.optim.Optimizer) else list(optimizers)


def _init_optim_state(optim: torch.optim.Optimizer) -> None:
    """Has an optimizer make its states, by a step that changes nothing."""
    if optim.state:
        return
    parameters = [parameter for group in optim.param_groups for parameter in group["params"]]
    if any(parameter.grad is not None for parameter in parameters):
        return
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    rates = []
    for group in optim.param_groups:
        rates.append(group.get("lr"))
        if "lr" in group:
            group["lr"] = torch.tensor(0.0) if isinstance(group["lr"], torch.Tensor) else 0.0
    optim.step(closure=None)
    for group, rate in zip(optim.param_groups, rates, strict=True):
        if "lr" in group:
            group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def _names(model: nn.Module) -> dict[int, str]:
    result: dict[int, str] = {}
    for name, value in _entries(model):
        result.setdefault(id(value), name)
    return result


def get_optimizer_state_dict(
    model: nn.Module,
    optimizers: Any,
    *,
    submodules: set[nn.Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of one or several optimizers by their parameters' names. Every rank calls it."""
    options = _checked(options)
    names = _names(model)
    chosen = None if submodules is None else {id(each) for part in submodules for each in part.parameters()}
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _optimizers(optimizers):
        _init_optim_state(optimizer)
        found = optimizer.state_dict()
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        wanted = {k: names[id(p)] for k, p in enumerate(parameters) if chosen is None or id(p) in chosen}
        for index, each in found["state"].items():
            if index in wanted:
                state[wanted[index]] = {key: _shown(value, options) for key, value in each.items()}
        for group in found["param_groups"]:
            groups.append({**group, "params": [wanted[index] for index in group["params"] if index in wanted]})
    if not _keeps(options):
        return {}
    result = {"state": state, "param_groups": groups}
    return _flattened(result) if options.flatten_optimizer_state_dict else result


def _flattened(found: dict[str, Any]) -> dict[str, Any]:
    result = {f"state.{name}.{key}": value for name, each in found["state"].items() for key, value in each.items()}
    for group in found["param_groups"]:
        for name in group["params"]:
            result.update({f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"})
    return result


def _unflattened(found: dict[str, Any], like: list[dict[str, Any]], names: dict[int, str]) -> dict[str, Any]:
    """A flat state dict as a nested one, of an optimizer's groups."""
    state: dict[str, Any] = {}
    groups = []
    for group in like:
        own = [names[id(parameter)] for parameter in group["params"]]
        made: dict[str, Any] = {"params": own}
        for name in own:
            prefix = f"state.{name}."
            entries = {key[len(prefix) :]: value for key, value in found.items() if key.startswith(prefix)}
            if entries:
                state[name] = entries
            for key in group:
                value = found.get(f"param_groups.{name}.{key}", made)
                if key != "params" and value is not made:
                    made[key] = value
        groups.append(made)
    return {"state": state, "param_groups": groups}


def get_state_dict(
    model: nn.Module,
    optimizers: Any,
    *,
    submodules: set[nn.Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state dicts of a model and of its optimizers."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


# Loading


def _sent(value: Any) -> Any:
    """The first rank's value, on every rank."""
    if not c10d.is_initialized() or c10d.get_world_size() == 1:
        return value
    held = [value]
    c10d.broadcast_object_list(held, src=0)
    return held[0]


def _as_like(value: Any, like: Any) -> Any:
    """A value placed as what it is loaded into."""
    if isinstance(like, DTensor) and isinstance(value, torch.Tensor) and not isinstance(value, DTensor) and value.ndim:
        return distribute_tensor(value.detach(), like.device_mesh, like.placements, src_data_rank=None)
    return value


@torch.no_grad()
def set_model_state_dict(
    model: nn.Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> IncompatibleKeys:
    """Loads what `get_model_state_dict` gives, whole or divided. Every rank calls it. RuntimeError where names don't match."""
    options = _checked(options)
    if options.broadcast_from_rank0:
        model_state_dict = _sent(model_state_dict if _first_rank() else None)
    missing, left = [], dict(model_state_dict)
    for name, tensor in _entries(model):
        if name not in model_state_dict:
            if not (options.ignore_frozen_params and not tensor.requires_grad):
                missing.append(name)
            continue
        left.pop(name, None)
        value = model_state_dict[name]
        if value.shape != tensor.shape:
            raise RuntimeError(
                f"size mismatch for {name}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
        tensor.detach().copy_(_as_like(value, tensor))
    for path, module in model.named_modules():
        name = _clean(model, f"{path}._extra_state" if path else "_extra_state")
        if name in left and type(module).set_extra_state is not nn.Module.set_extra_state:
            module.set_extra_state(left.pop(name))
    if options.strict and (missing or left):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(model).__name__}:\n\t"
            f"missing: {missing}, unexpected: {list(left)}"
        )
    return IncompatibleKeys(missing, list(left))


@torch.no_grad()
def set_optimizer_state_dict(
    model: nn.Module,
    optimizers: Any,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Loads what `get_optimizer_state_dict` gives. Every rank calls it. RuntimeError for parameters that it has no state of."""
    options = _checked(options)
    if options.broadcast_from_rank0:
        optim_state_dict = _sent(optim_state_dict if _first_rank() else None)
    names = _names(model)
    for optimizer in _optimizers(optimizers):
        with torch.enable_grad():
            _init_optim_state(optimizer)
        found = optim_state_dict
        if "param_groups" not in found:
            found = _unflattened(found, optimizer.param_groups, names)
        optimizer.load_state_dict(_numbered(optimizer, found, names))


def _numbered(optimizer: torch.optim.Optimizer, found: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """A state dict by names as the optimizer takes it: by numbers, states placed as their parameters are."""
    state: dict[int, Any] = {}
    groups = []
    index = 0
    settings = {name: group for group in found["param_groups"] for name in group["params"]}
    for group in optimizer.param_groups:
        own = [names[id(parameter)] for parameter in group["params"]]
        for parameter, name in zip(group["params"], own, strict=True):
            if name in found["state"]:
                state[index] = {key: _as_like(value, parameter) for key, value in found["state"][name].items()}
            elif parameter.requires_grad and optimizer.state.get(parameter):
                raise RuntimeError(f"the optimizer's state dict has nothing of the parameter {name}")
            index += 1
        saved = next((settings[name] for name in own if name in settings), {})
        numbers = list(range(index - len(own), index))
        kept = {key: saved.get(key, value) for key, value in group.items() if key != "params"}
        groups.append({**kept, "params": numbers})
    return {"state": state, "param_groups": groups}


def set_state_dict(
    model: nn.Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Loads the state dicts of a model and of its optimizers."""
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result
