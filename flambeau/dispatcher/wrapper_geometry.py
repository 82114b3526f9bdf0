"""Wrappers whose class answers for their sizes, strides, device or layout: `_make_wrapper_subclass(...,
dispatch_sizes_strides_policy="sizes")`.

The class gets forms of the methods that say so, which ask its `__torch_dispatch__` for `aten.sym_size` and its kin where the
tensor was made to. Stands on handlers; loaded by dispatch_modes, and called by core.modes.overrides.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Size, contiguous_format
from flambeau.core.modes import overrides
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import handlers
from flambeau.dispatcher.namespaces import ops

__all__: list[str] = []

_STRIDES = frozenset(["strides"])
_ASKED = {"strides": _STRIDES, "sizes": _STRIDES | {"sizes"}, "device": frozenset(["device"]), "layout": frozenset(["layout"])}
_FORMS: dict[str, Callable[[Any], Any]] = {}


def answer_for(tensor: Any, policy: str | None, device: bool, layout: bool) -> None:
    """Have a wrapper's class answer for these."""
    wanted = [policy] * (policy is not None) + ["device"] * device + ["layout"] * layout
    tensor.__dict__["_answers_for"] = frozenset().union(*[_ASKED[each] for each in wanted])
    cls = type(tensor)
    for name, form in _FORMS.items():
        if getattr(cls, name) is vars(Tensor)[name]:  # unless the class says it itself
            setattr(cls, name, form(vars(Tensor)[name]))


def _asks(tensor: Any, what: str) -> bool:
    return what in tensor.__dict__.get("_answers_for", ()) and local.classes_answer


class _NoAnswer(Exception):
    """A class answers None: what it was asked for is as the wrapper was made."""


class _Form:
    """A method or property of a class of wrappers, that is Tensor's own when the class itself is asked for it."""

    def __init__(self, kind: str, asked: Callable[..., Any], own: Any) -> None:
        self.kind, self.asked, self.own = kind, asked, own

    def __get__(self, tensor: Any, cls: Any = None) -> Any:
        own = self.own.__get__(tensor, cls)
        if tensor is None or not _asks(tensor, self.kind):
            return own
        if isinstance(self.own, types.FunctionType):
            return functools.partial(self.answered, own, tensor)
        try:
            return self.asked(tensor)
        except _NoAnswer:
            return own

    def answered(self, own: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """What the class says, or Tensor's own method where it says None."""
        try:
            return self.asked(tensor, *args, **kwargs)
        except _NoAnswer:
            return own(*args, **kwargs)

    def __set__(self, tensor: Any, value: Any) -> None:
        raise AttributeError(f"attribute of {type(tensor).__name__!r} objects is not writable")


def _form(kind: str, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what answers for a method, or a property, of wrappers that are to be asked for that kind."""

    def register(asked: Callable[..., Any]) -> Callable[..., Any]:
        def form_of(own: Any) -> Any:
            return _Form(kind, asked, own)

        _FORMS.update(dict.fromkeys(names, form_of))
        return asked

    return register


def _ask(overload: Any, tensor: Any, *args: Any) -> Any:
    found = handlers.hand_over(overload, (tensor, *args), {}, f"ops.{overload.overloadpacket}")
    if found is None:
        raise _NoAnswer
    return found


@_form("sizes", "shape")
def _shape(tensor: Any) -> Any:
    return Size(_ask(ops.aten.sym_size.default, tensor))


@_form("sizes", "size")
def _size(tensor: Any, dim: int | None = None) -> Any:
    if dim is None:
        return _shape(tensor)
    at = wrap_dim(dim, _dim(tensor))
    return _shape(tensor)[at]


@_form("sizes", "__len__")
def _length(tensor: Any) -> Any:
    if not _dim(tensor):
        raise TypeError("len() of a 0-d tensor")
    return _shape(tensor)[0]


@_form("sizes", "dim", "ndim", "ndimension")
def _dim(tensor: Any) -> Any:
    return _ask(ops.aten.dim.default, tensor)


@_form("sizes", "numel", "nelement")
def _numel(tensor: Any) -> Any:
    return _ask(ops.aten.sym_numel.default, tensor)


@_form("sizes", "storage_offset")
def _storage_offset(tensor: Any) -> Any:
    return _ask(ops.aten.sym_storage_offset.default, tensor)


@_form("strides", "stride")
def _stride(tensor: Any, dim: int | None = None) -> Any:
    steps = tuple(_ask(ops.aten.sym_stride.default, tensor))
    return steps if dim is None else steps[wrap_dim(dim, len(steps))]


@_form("strides", "is_contiguous")
def _is_contiguous(tensor: Any, *, memory_format: Any = contiguous_format) -> Any:
    if memory_format is contiguous_format:
        return _ask(ops.aten.is_contiguous.default, tensor)
    return _ask(ops.aten.is_contiguous.memory_format, tensor, memory_format)


@_form("device", "device")
def _device(tensor: Any) -> Any:
    return _ask(ops.prim.device.default, tensor)


@_form("layout", "layout")
def _layout(tensor: Any) -> Any:
    return _ask(ops.prim.layout.default, tensor)


overrides.answer_for_geometry = answer_for
