"""torch.distributed.checkpoint.state_dict: state dicts of models and optimizers under the names that the models have undivided.

Wrappers (DistributedDataParallel, FullyShardedDataParallel, compiled and checkpointed modules) leave no trace in names, and
optimizers' states go by their parameters' names: so what one way of dividing a model saved, another loads. Used with `save` and
`load`. Stands on `state_names` and `_sending`.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.checkpoint._sending import first_rank, sent
from flambeau.distributed.state_names import (
    numbered_states,
    parameter_names,
    placed_like,
    reshard_modules,
    states_by_name,
    unwrapped_name,
)
from flambeau.distributed.tensor._api import DTensor

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """What a state dict holds, and how strictly it is loaded.

    full_state_dict: whole tensors rather than DTensors; with `cpu_offload` on the first rank only, the others get an empty dict.
    ignore_frozen_params: without parameters that need no gradient. strict: names have to match when a model's is loaded, and
    states of parameters that need gradients have to be there. keep_submodule_prefixes: names of `submodules` are those in the
    model. broadcast_from_rank0: what is loaded is the first rank's, whole. flatten_optimizer_state_dict: one dict by joined
    names.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


@torch.no_grad()
def _shown(value: Any, options: StateDictOptions) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.full_tensor()
    return value.cpu() if options.cpu_offload else value


def _keeps(options: StateDictOptions) -> bool:
    """Whether this rank gets what is whole."""
    return not (options.full_state_dict and options.cpu_offload) or first_rank()


def _discourage(submodules: Any) -> None:
    if submodules:
        warnings.warn("Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. "
                      "This feature can be achieved by manually filtering out the state_dict returned from get_state_dict.",
                      FutureWarning, stacklevel=3)  # fmt: skip


def _may_be_empty(options: StateDictOptions) -> bool:
    """Whether ranks other than the first may have nothing to load."""
    return options.broadcast_from_rank0 or (options.full_state_dict and options.cpu_offload)


# Models


@contextlib.contextmanager
def _with_parts(model: nn.Module) -> Iterator[None]:
    """A block in which fully sharded modules' state dicts hold DTensors."""
    from flambeau.distributed.fsdp import FullyShardedDataParallel, StateDictType

    reshard_modules(model)
    if not FullyShardedDataParallel.fsdp_modules(model):
        yield
        return
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        yield


def _own_state_dict(model: nn.Module) -> dict[str, Any]:
    """What the model's own state_dict() gives, its hooks included, also while `_patch_model_state_dict` stands before it."""
    with _with_parts(model):
        result: dict[str, Any] = _original(model, "state_dict")()
    return result


def _frozen(model: nn.Module) -> set[str]:
    named = model.named_parameters(remove_duplicate=False)
    return {unwrapped_name(model, name) for name, parameter in named if not parameter.requires_grad}


def _chosen(model: nn.Module, submodules: Iterable[nn.Module], keep_prefixes: bool) -> list[tuple[str, str]]:
    """The beginnings of names of submodules in a model, and what stands in their place."""
    wanted = {id(module) for module in submodules}
    found = [unwrapped_name(model, path) for path, module in model.named_modules() if id(module) in wanted]
    prefixes = [f"{name}." if name else "" for name in found]
    return [(prefix, prefix if keep_prefixes else "") for prefix in prefixes]


def get_model_state_dict(
    model: nn.Module, *, submodules: set[nn.Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's state dict; tensors of divided models are DTensors, or whole if the options say so. Every rank calls it.

    submodules: only what belongs to these modules of it.
    """
    options = _checked(options)
    _discourage(submodules)
    prefixes = None if submodules is None else _chosen(model, submodules, options.keep_submodule_prefixes)
    left_out = _frozen(model) if options.ignore_frozen_params else set()
    result = {}
    for key, value in _own_state_dict(model).items():
        name = unwrapped_name(model, key)
        if name in left_out:
            continue
        places = [("", "")] if prefixes is None else [place for place in prefixes if name.startswith(place[0])]
        if places:
            prefix, instead = max(places)
            result[instead + name[len(prefix) :]] = _shown(value, options)
    return result if _keeps(options) else {}


def _joined(model: nn.Module, given: Mapping[Any, Any]) -> dict[str, Any]:
    """A state dict of state dicts of submodules as one; any other as it is."""
    if not any(isinstance(key, nn.Module) for key in given):
        return dict(given)
    warnings.warn("Passing model_state_dict as a ``Dict[nn.Module, Dict[str, Any]]``is deprecated and will be removed in 2.5."
                  " If you need this feature, please preprocessing the model_state_dict to achieve the same functionality.",
                  FutureWarning, stacklevel=3)  # fmt: skip
    paths = {id(module): unwrapped_name(model, path) for path, module in model.named_modules()}
    return {
        f"{paths[id(module)]}.{name}" if paths[id(module)] else name: value
        for module, state in given.items()
        for name, value in state.items()
    }


@torch.no_grad()
def set_model_state_dict(model: nn.Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None) -> Any:
    """Loads what `get_model_state_dict` gives, whole or divided. Every rank calls it.

    A model on the meta device takes the tensors of a whole state dict themselves. Returns what nn.Module.load_state_dict does;
    RuntimeError where names, unless `strict` is False, or sizes don't match.
    """
    options = _checked(options)
    given = _joined(model, model_state_dict)
    if not given and options.strict and not options.ignore_frozen_params and not _may_be_empty(options):
        raise RuntimeError("The option indicates that model state_dict is required to save or load, but model state_dict is "
                           f"empty.rank = dist.get_rank()={c10d.get_rank() if c10d.is_initialized() else 0}.")  # fmt: skip
    own = _own_state_dict(model)
    keys = {unwrapped_name(model, key): key for key in own}
    placed = {}
    for name, value in sent(given) if options.broadcast_from_rank0 else given.items():
        key = keys.get(name, name)
        placed[key] = placed_like(value, own.get(key))
    assign = (options.full_state_dict or options.broadcast_from_rank0) and any(
        isinstance(value, torch.Tensor) and value.is_meta for value in own.values()
    )
    with _with_parts(model):
        return _original(model, "load_state_dict")(placed, strict=options.strict, **({"assign": True} if assign else {}))


# Optimizers


def _optimizers(optimizers: Any) -> list[torch.optim.Optimizer]:
    return [optimizers] if isinstance(optimizers, torch.optim.Optimizer) else list(optimizers)


def _init_optim_state(optim: torch.optim.Optimizer) -> None:
    """Has an optimizer make its states, by a step that changes nothing; not while gradients wait for a step."""
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
    with torch.enable_grad():
        optim.step(closure=None)
    for group, rate in zip(optim.param_groups, rates, strict=True):
        if "lr" in group:
            group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def get_optimizer_state_dict(
    model: nn.Module, optimizers: Any, *, submodules: set[nn.Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of one or several optimizers by their parameters' names. Every rank calls it.

    `submodules` makes no difference, as in PyTorch: states are those of all of the optimizers' parameters.
    """
    options = _checked(options)
    _discourage(submodules)
    names = parameter_names(model)
    result: dict[str, Any] = {}
    for optimizer in _optimizers(optimizers):
        _init_optim_state(optimizer)
        found = states_by_name(optimizer, _original(optimizer, "state_dict")(), names, functools.partial(_shown, options=options))
        result.setdefault("state", {}).update(found["state"])
        result.setdefault("param_groups", []).extend(found["param_groups"])
    if not _keeps(options):
        return {}
    return _flattened(result) if result and options.flatten_optimizer_state_dict else result


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
                    made.setdefault(key, value)
        groups.append(made)
    return {"state": state, "param_groups": groups}


def _by_name(optimizer: torch.optim.Optimizer, found: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """A state dict by names, also of one by numbers, as the optimizer itself gives it."""
    if any(isinstance(each, int) for group in found["param_groups"] for each in group["params"]):
        return states_by_name(optimizer, found, names, lambda value: value)
    return found


def _check_states(optimizer: torch.optim.Optimizer, found: dict[str, Any], names: dict[int, str]) -> None:
    """RuntimeError where some parameters that need gradients have states, and others none."""
    for group in optimizer.param_groups if found["state"] else ():
        for parameter in group["params"]:
            name = names.get(id(parameter))
            if parameter.requires_grad and optimizer.state.get(parameter) and name not in found["state"]:
                raise RuntimeError(
                    f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires gradients but has no "
                    "saved optimizer state. To load anyway, use StateDictOptions(strict=False)."
                )


def _require(optimizers: list[torch.optim.Optimizer], found: dict[str, Any], options: StateDictOptions) -> None:
    if optimizers and not found and not _may_be_empty(options):
        raise RuntimeError("The option indicates that model state_dict is required to save, or load but optim state_dict is "
                           f"empty. {found}")  # fmt: skip


@torch.no_grad()
def set_optimizer_state_dict(
    model: nn.Module, optimizers: Any, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Loads what `get_optimizer_state_dict` gives, or the optimizer's own state dict. Every rank calls it.

    RuntimeError for parameters that need a gradient and that it has no state of, unless `strict` is False.
    """
    options = _checked(options)
    chosen = _optimizers(optimizers)
    _require(chosen, optim_state_dict, options)
    names = parameter_names(model)
    if options.broadcast_from_rank0:
        optim_state_dict = dict(sent(optim_state_dict))
    for optimizer in chosen:
        _init_optim_state(optimizer)
        found = optim_state_dict
        if "param_groups" not in found:
            found = _unflattened(found, optimizer.param_groups, names)
        found = _by_name(optimizer, found, names)
        if options.strict:
            _check_states(optimizer, found, names)
        _original(optimizer, "load_state_dict")(numbered_states(optimizer, found, names))


# Both


def get_state_dict(
    model: nn.Module, optimizers: Any, *, submodules: set[nn.Module] | None = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state dicts of a model and of its optimizers."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: nn.Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Loads the state dicts of a model and of its optimizers. Returns what `set_model_state_dict` does."""
    _require(_optimizers(optimizers), optim_state_dict, _checked(options))
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result


def _patch_model_state_dict(model: nn.Module, *, options: StateDictOptions | None = None) -> None:
    """Has the model's own state_dict() and load_state_dict() be the functions above."""
    get = functools.partial(get_model_state_dict, options=options)
    put = functools.partial(set_model_state_dict, options=options)
    _patch(model, lambda: get(model), lambda state_dict: put(model, model_state_dict=state_dict))


def _patch_optimizer_state_dict(model: nn.Module, *, optimizers: Any, options: StateDictOptions | None = None) -> None:
    """Has each optimizer's own state_dict() and load_state_dict() be the functions above, for all of them."""
    own = _optimizers(optimizers)
    get = functools.partial(get_optimizer_state_dict, options=options)
    put = functools.partial(set_optimizer_state_dict, options=options)
    for each in own:
        _patch(each, lambda: get(model, own), lambda state_dict: put(model, own, optim_state_dict=state_dict))


def _patch(owner: Any, get: Any, put: Any) -> None:
    for name, instead in (("state_dict", get), ("load_state_dict", put)):
        instead.original = _original(owner, name)
        setattr(owner, name, instead)


def _original(owner: Any, name: str) -> Any:
    """A method as it is without the patches of this module."""
    method = getattr(owner, name)
    return getattr(method, "original", method)
