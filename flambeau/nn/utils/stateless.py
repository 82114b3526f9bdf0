"""functional_call: run a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

_MISSING = object()


def _tied_names(module: Module) -> dict[str, set[str]]:
    """For each name the other names of the same tensor."""
    groups: dict[int, set[str]] = {}
    for members in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in members:
            groups.setdefault(id(tensor), set()).add(name)
    return {name: names for names in groups.values() for name in names}


def _untie(module: Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """tensors with an entry for every name of a tied tensor; two different values for one tensor are refused."""
    tied = _tied_names(module)
    result = dict(tensors)
    for name, tensor in tensors.items():
        for other in tied.get(name, ()):
            if other in tensors and tensors[other] is not tensor:
                first, second = sorted((name, other))
                raise ValueError(
                    f"functional_call got multiple values for keys {[first, second]}, which are tied. "
                    "Consider using tie_weights=False"
                )
            result[other] = tensor
    return result


def _registry(owner: Module, name: str) -> dict[str, Any] | None:
    for registry in (owner._parameters, owner._buffers):
        if name in registry:
            return registry
    return None


@contextlib.contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: dict[str, Tensor], tie_weights: bool = False, strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:  # fmt: skip
    """Within the block the module holds the given tensors; what it wrote into its buffers goes back to the dict."""
    tensors = _untie(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    if strict:
        known = {name for name, _ in module.named_parameters(remove_duplicate=False)}
        known |= {name for name, _ in module.named_buffers(remove_duplicate=False)}
        missing, unexpected = sorted(known - tensors.keys()), sorted(tensors.keys() - known)
        if missing or unexpected:
            lines = [f"Unexpected key(s): {', '.join(map(repr, unexpected))}."] if unexpected else []
            if missing:
                lines.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
            raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(lines))
    swapped: list[tuple[dict[str, Any], str, Any, str]] = []
    try:
        for path, tensor in tensors.items():
            owner_path, _, name = path.rpartition(".")
            owner = module.get_submodule(owner_path)
            registry = _registry(owner, name)
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"{tensor!r} is not an instance of torch.Tensor")
            if registry is None:
                registry = owner.__dict__  # a plain attribute, a name that parametrizations compute, or an unknown one
                present = registry.get(name)
                if present is not None and not isinstance(present, Tensor):
                    raise TypeError(f"attribute `{name}`: {present} is not an instance of torch.Tensor")
                if isinstance(tensor, Parameter) and not hasattr(owner, name):
                    registry = owner._parameters
            swapped.append((registry, name, registry.get(name, _MISSING), path))
            registry[name] = tensor
        yield
    finally:
        for registry, name, original, path in reversed(swapped):
            if path in parameters_and_buffers:
                parameters_and_buffers[path] = registry[name]
            if original is _MISSING:
                del registry[name]
            else:
                registry[name] = original


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated place of `flambeau.func.functional_call`, the same function."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 "
        "and will be removed in a future version of PyTorch. "
        "Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with its tensors replaced by name; gradients flow to the given ones.

    Args:
        parameters_and_buffers: dotted names to tensors; names left out keep the module's own.
        args: a tuple of arguments, or one argument.
        tie_weights: replace every name of a shared tensor.
        strict: refuse missing and unexpected names.
    """
    if isinstance(module, Module) and hasattr(module, "_c"):  # which TorchScript has compiled
        raise RuntimeError("The stateless API can't be used with Jitted modules")
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    jit = sys.modules.get("flambeau.jit")
    if jit is not None and isinstance(module, jit.ScriptModule):
        raise RuntimeError("The stateless API can't be used with Jitted modules")
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))
