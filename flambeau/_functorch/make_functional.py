"""torch._functorch.make_functional: a module apart from its parameters, as functorch did it before torch.func.functional_call.

`make_functional` copies a module and hands out the copy's parameters and a FunctionalModule, which is called with such
parameters first; `combine_state_for_ensemble` stacks those of several modules, for vmap. Stands on func.modules.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.core.tensor.tensor import Tensor
from flambeau.func.modules import functional_call

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "create_names_map", "functional_init",
    "functional_init_with_buffers", "make_functional", "make_functional_with_buffers", "transpose_stack",
]  # fmt: skip


def create_names_map(
    named_params: dict[str, Tensor] | Iterable[tuple[str, Tensor]],
    tied_named_params: dict[str, Tensor] | Iterable[tuple[str, Tensor]],
) -> dict[str, list[str]]:
    """Per name of a tensor all its names: the first list names each tensor once, the second as often as it is used."""
    once, every = dict(named_params), dict(tied_named_params)
    found: dict[int, tuple[str, list[str]]] = {id(x): (name, []) for name, x in once.items()}
    for name, x in every.items():
        found[id(x)][1].append(name)
    return dict(found.values())


def _taken_out(
    module: nn.Module, named: Callable[..., Iterable[tuple[str, Tensor]]], stand_in: Callable[[Any], Tensor]
) -> tuple[tuple[Tensor, ...], tuple[str, ...], dict[str, list[str]]]:
    """(tensors of a module, their names, all names of each); in the module tensors without memory take their places."""
    once = dict(named())
    names = create_names_map(once, named(remove_duplicate=False))
    for name, every in names.items():
        replacement = stand_in(once[name])
        for each in every:
            path, _, attribute = each.rpartition(".")
            setattr(module.get_submodule(path), attribute, replacement)
    return tuple(once.values()), tuple(once), names


def _without_memory(x: Tensor) -> Tensor:
    return torch.empty_like(x, device="meta")


def _parameter_without_memory(x: Tensor) -> Tensor:
    return nn.Parameter(_without_memory(x), x.requires_grad)


class FunctionalModuleWithBuffers(nn.Module):
    """A module that is called with its parameters and buffers: func(parameters, buffers, *args, **kwargs)."""

    def __init__(
        self,
        stateless_model: nn.Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        param_names_map: dict[str, list[str]],
        buffer_names_map: dict[str, list[str]],
    ) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names
        self.all_names_map = param_names_map | buffer_names_map

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """What the module computes with these tensors. Buffers that it writes to are written to."""
        given = dict(zip(self.param_names, params)) | dict(zip(self.buffer_names, buffers))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(nn.Module):
    """A module that is called with its parameters: func(parameters, *args, **kwargs)."""

    def __init__(self, stateless_model: nn.Module, param_names: tuple[str, ...], names_map: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.names_map = stateless_model, param_names, names_map

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """What the module computes with these parameters."""
        return functional_call(self.stateless_model, dict(zip(self.param_names, params)), args, kwargs)


def make_functional(model: nn.Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """(func, parameters): func(parameters, *args, **kwargs) computes what the module does. The parameters are copies.

    disable_autograd_tracking: they don't require grad. RuntimeError for a module with buffers.
    """
    if list(model.buffers()):
        raise RuntimeError("make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.")
    made, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return FunctionalModule(made.stateless_model, made.param_names, made.all_names_map), params


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(func, parameters, buffers): func(parameters, buffers, *args, **kwargs) computes what the module does."""
    model = copy.deepcopy(model)
    params, names, names_map = _taken_out(model, model.named_parameters, _parameter_without_memory)
    buffers, buffer_names, buffer_map = _taken_out(model, model.named_buffers, _without_memory)
    if disable_autograd_tracking:
        for x in params:
            x.requires_grad_(False)
    return FunctionalModuleWithBuffers(model, names, buffer_names, names_map, buffer_map), params, buffers


def transpose_stack(tuple_of_tuple_of_tensors: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    """The first tensors of all stacked, the second ones, and so on; out of the graph."""
    return tuple(torch.stack(list(column)).detach() for column in zip(*tuple_of_tuple_of_tensors))


def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(func, parameters, buffers) of models of one class, stacked along a new first dimension, for vmap over models.

    RuntimeError unless there is one at least, and all are of one class and all in training, or all in evaluation, mode.
    """
    name = "combine_state_for_ensemble"
    if not models:
        raise RuntimeError(f"{name}: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError(f"{name}: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(f"{name}: Expected all models to be of the same class.")
    funcs, params, buffers = zip(*[make_functional_with_buffers(m) for m in models])
    return funcs[0], transpose_stack(params), transpose_stack(buffers)


def _models(model_class: type[nn.Module], shape: tuple[int, ...], device: Any) -> Callable[..., list[nn.Module]]:
    if len(shape) >= 2:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if shape and shape[0] <= 0:
        raise ValueError(f"num_models {shape[0]} should be > 0")
    return lambda *args, **kwargs: [model_class(*args, **kwargs).to(device) for _ in range(shape[0] if shape else 1)]


def functional_init(
    model_class: type[nn.Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable[..., tuple[tuple[Tensor, ...], Callable[..., Any], tuple[str, ...]]]:
    """A function of the class's arguments that gives (parameters, func, their names) of a module, or of so many stacked.

    func takes the parameters and a tuple of arguments.
    """

    def made(*args: Any, **kwargs: Any) -> tuple[tuple[Tensor, ...], Callable[..., Any], tuple[str, ...]]:
        functions, params = zip(*[make_functional(m) for m in _models(model_class, ensemble_shape, device)(*args, **kwargs)])
        first = functions[0]
        return (
            transpose_stack(params) if ensemble_shape else params[0],
            lambda weights, data: first(weights, *data),
            first.param_names,
        )

    return made


def functional_init_with_buffers(
    model_class: type[nn.Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable[..., tuple[Any, ...]]:
    """functional_init that gives (parameters, buffers, func, names of parameters, names of buffers)."""

    def made(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        functions, params, buffers = zip(
            *[make_functional_with_buffers(m) for m in _models(model_class, ensemble_shape, device)(*args, **kwargs)]
        )
        state = (transpose_stack(params), transpose_stack(buffers)) if ensemble_shape else (params[0], buffers[0])
        first = functions[0]
        return (*state, lambda weights, buffers, data: first(weights, buffers, *data), first.param_names, first.buffer_names)

    return made
