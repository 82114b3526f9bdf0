"""Modules as functions of their parameters: functional_call, stack_module_state, batch norms that vmap can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from flambeau.nn.modules.module import Module
from flambeau.nn.utils.stateless import _functional_call

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with other tensors in place of its parameters and buffers.

    parameter_and_buffer_dicts: a dict of names (as in named_parameters) to tensors, or several with different names;
    names left out keep the module's own. args: a tuple of arguments, or one argument. tie_weights: a tensor that has
    several names is replaced under all of them. strict: RuntimeError for missing and unexpected names.
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        tensors = dict(parameter_and_buffer_dicts)
        given = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        if not all(isinstance(part, dict) for part in parameter_and_buffer_dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = [name for part in parameter_and_buffer_dicts for name in part]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {name: tensor for part in parameter_and_buffer_dicts for name, tensor in part.items()}
        tensors = given
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    for tensor in tensors.values():
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"{tensor!r} is not an instance of torch.Tensor")
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of models of one class, by name, each stacked along a new first dimension, for vmap over
    models.

    RuntimeError unless the models are of one class and all in training, or all in evaluation, mode.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {name: _stacked([p[name] for p in parameters], name) for name in parameters[0]},
        {name: _stacked([b[name] for b in buffers], name) for name in buffers[0]},
    )


def _stacked(tensors: list[Any], name: str) -> Any:
    """Leaves stacked into a leaf."""
    wanted = tensors[0].requires_grad
    if any(t.requires_grad is not wanted for t in tensors):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    if not all(t.is_leaf for t in tensors):
        return NAMESPACE["stack"](tensors)
    made = NAMESPACE["stack"](tensors).detach()
    made.requires_grad = wanted
    return made


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make every batch norm in a module use the statistics of its batch only, in place, so that vmap can map over it."""
    for module in root.modules():
        if isinstance(module, (BatchNorm1d, BatchNorm2d, BatchNorm3d)):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root
