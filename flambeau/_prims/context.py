"""torch._prims.context: the mode in which functions of torch are answered by their references. Stands on torch._refs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau import overrides
from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.overloads import OpOverload, OpOverloadPacket

__all__ = ["TorchRefsMode", "all_prims", "torch_to_refs_map"]


@functools.cache
def torch_to_refs_map() -> dict[Any, Callable[..., Any]]:
    """References by the functions of torch and of its rooms, and by the methods of Tensor."""
    from flambeau import _refs

    rooms = (
        (torch, _refs),
        (torch.nn.functional, _refs.nn.functional),
        (torch.special, _refs.special),
        (torch.fft, _refs.fft),
        (torch.linalg, _refs.linalg),
    )
    found: dict[Any, Callable[..., Any]] = {}
    for own, reference in rooms:
        for name in reference.__all__:
            function = getattr(own, name, None)
            if callable(function):
                found[function] = getattr(reference, name)
    for name in _refs.__all__:
        method = getattr(torch.Tensor, name, None)
        if callable(method):
            found[method] = getattr(_refs, name)
    for name in _refs._conversions.__all__:
        if callable(getattr(torch.Tensor, name, None)):
            found[getattr(torch.Tensor, name)] = getattr(_refs._conversions, name)
    return found


@functools.cache
def all_prims() -> frozenset[Any]:
    """The primitive operators."""
    return frozenset(getattr(torch.ops.prims, name).default for name in builtin_schemas.names("prims"))


class TorchRefsMode(overrides.TorchFunctionMode):
    """While it is on, functions of torch are answered by their references, operators of torch.ops by their decompositions.

    strict: RuntimeError for a function that has no reference; should_fallback_fn(mode, function, reference, args, kwargs):
    whether the function itself is to answer; prims_mode_cls: a mode that primitive operators run under.
    """

    def __init__(
        self,
        strict: bool = False,
        should_fallback_fn: Callable[..., bool] = lambda *_: False,
        prims_mode_cls: Callable[[], Any] = contextlib.nullcontext,
    ) -> None:
        self.strict, self.should_fallback_fn, self.prims_mode_cls = strict, should_fallback_fn, prims_mode_cls

    def __torch_function__(self, orig_func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(orig_func, "_namespace", "") == "prims" or _passes(orig_func):
            with self.prims_mode_cls():
                return orig_func(*args, **kwargs)
        found = torch_to_refs_map().get(orig_func)
        if found is None and isinstance(orig_func, (OpOverload, OpOverloadPacket)):
            found = _decomposition(orig_func)
        if found is not None:
            if self.should_fallback_fn(self, orig_func, found, args, kwargs):
                return orig_func(*args, **kwargs)
            if found is orig_func or not (getattr(found, "is_reference", False) or isinstance(orig_func, OpOverload)):
                return found(*args, **kwargs)  # the function itself, which nobody else answers
            with self:  # what the reference calls of torch is answered by references too
                return found(*args, **kwargs)
        if self.strict:
            raise RuntimeError(f"no _refs support for {overrides.resolve_name(orig_func)}")
        return orig_func(*args, **kwargs)


def _decomposition(operator: Any) -> Callable[..., Any] | None:
    from flambeau._decomp import decomposition_table

    overload = operator if isinstance(operator, OpOverload) else getattr(operator, "default", None)
    return decomposition_table.get(overload)


def _passes(function: Any) -> bool:
    """Whether a function only asks something of a tensor, or is none of torch's operators: it answers itself."""
    name = getattr(function, "__name__", "")
    if name in ("__get__", "__set__") or isinstance(function, (type(torch.Tensor.shape.__get__),)):
        return True
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return False
    return getattr(function, "operator", None) is None and function not in torch_to_refs_map()
