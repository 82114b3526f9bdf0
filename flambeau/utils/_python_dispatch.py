"""torch.utils._python_dispatch: modes below autograd, and tensors that are made of tensors.

A TorchDispatchMode sees every operator as PyTorch's dispatcher names it. A subclass of Tensor with __tensor_flatten__ and
__tensor_unflatten__ says of which tensors it is made; libraries ask whether a tensor has them. Stands on
dispatcher.dispatch_modes.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from flambeau.base import device as devices
from flambeau.core.modes import modes
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.dispatch_modes import DispatchMode
from flambeau.dispatcher.overloads import OpOverload

__all__ = [
    "AliasInfo", "BaseTorchDispatchMode", "SchemaInfo", "TensorWithFlatten", "TorchDispatchMode",
    "any_torch_dispatch_mode_on_stack", "autograd_would_have_decomposed", "get_alias_info", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip


class TorchDispatchMode(DispatchMode):
    """A mode whose `__torch_dispatch__(func, types, args, kwargs)` answers every operator while it is on (`with mode:`).

    func: an overload, `torch.ops.aten.add.Tensor`, to be called with the arguments of its schema; the call goes to the mode
    outside of this one, and at last to the operator.
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None):
        self._dispatch_key = _dispatch_key

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance; `with Mode.push(...)` is `with Mode(...)`."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether it belongs to PyTorch's own machinery."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """The mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is on in this thread; include_infra_modes: also one whose `is_infra_mode()` is True."""
    return any(include_infra_modes or not mode.is_infra_mode() for mode in _get_current_dispatch_mode_stack())


def _get_current_dispatch_mode() -> Any:
    """The innermost mode; None if none is on."""
    stack = _get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes that are on, innermost last; a fake tensor mode is outside of all others."""
    stand_ins = devices.stand_ins_in_use()
    return [*([] if stand_ins is None else [stand_ins.mode]), *modes.local.dispatch_modes]


def any_torch_dispatch_mode_on_stack(*, include_infra_modes: bool = True) -> bool:
    """The same as is_in_torch_dispatch_mode."""
    return is_in_torch_dispatch_mode(include_infra_modes)


def _len_torch_dispatch_stack() -> int:
    """How many modes are on."""
    return len(_get_current_dispatch_mode_stack())


def _get_dispatch_stack_at(index: int) -> Any:
    """The mode at a place, 0 for the outermost."""
    return _get_current_dispatch_mode_stack()[index]


def _push_mode(mode: Any) -> None:
    """Switch on a mode; `_pop_mode` switches it off."""
    mode.__enter__()


def _pop_mode(mode_key: Any = None) -> Any:
    """Switch off the innermost mode, which is returned. RuntimeError if none is on."""
    if not modes.local.dispatch_modes:
        raise RuntimeError("trying to pop from empty mode stack")
    mode = modes.local.dispatch_modes[-1]
    mode.__exit__(None, None, None)
    return mode


_push_on_torch_dispatch_stack, _pop_torch_dispatch_stack = _push_mode, _pop_mode


@contextlib.contextmanager
def _pop_mode_temporarily(mode_key: Any = None) -> Iterator[Any]:
    """Switch off the innermost mode for a while."""
    mode = _pop_mode(mode_key)
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Switch off the modes of this thread."""
    stack = modes.local.dispatch_modes
    before = stack[:]
    shown = _get_current_dispatch_mode_stack()
    stack.clear()
    stand_ins = devices.use_stand_ins(None)
    try:
        yield shown
    finally:
        stack[:] = before
        devices.use_stand_ins(stand_ins)


class TensorWithFlatten(Protocol):
    """What a tensor has that says of which tensors it is made."""

    def __tensor_flatten__(self) -> tuple[list[str], object]: ...

    @staticmethod
    def __tensor_unflatten__(inner_tensors: Any, flatten_spec: Any, outer_size: Any, outer_stride: Any) -> Tensor: ...


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class is a subclass of Tensor with __tensor_flatten__ and __tensor_unflatten__."""
    return issubclass(t, Tensor) and t is not Tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether it is a tensor of a class that says of which tensors it is made."""
    return is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(
    t: Any, callback: Callable[[str, Tensor], Tensor], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """The tensor made again of callback(name, tensor) for each of its tensors. Raises AssertionError if its shape changes."""
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    made = type(t).__tensor_unflatten__({name: callback(name, getattr(t, name)) for name in names}, context, size, stride)
    for what, wanted, found in (("shape", size, made.shape), ("strides", stride, made.stride())):
        if tuple(wanted) != tuple(found):
            raise AssertionError(
                f"Expected return value from {type(t)}__tensor_unflatten__() to have {what} equal to {wanted}, but got: {found}"
            )
    return made


# ---------------------------------------------------------------- what schemas say of aliases


@dataclass
class AliasInfo:
    """An argument or result by what it may share with others, and whether it is written to."""

    alias_set: set[str]
    is_write: bool
    name: str | None


@dataclass
class SchemaInfo:
    """The arguments and results of an overload, and the positions of the results that are arguments."""

    args: list[AliasInfo]
    outs: list[AliasInfo]
    is_inplace_view_op: bool
    outs_write_aliases: list[str] | None


@functools.cache
def get_alias_info(func: Any) -> SchemaInfo:
    """What an overload's schema says of aliases."""
    schema = func._schema

    def info(x: Any) -> AliasInfo:
        alias = x.alias_info
        return AliasInfo(set() if alias is None else set(alias.before_set), bool(alias is not None and alias.is_write), x.name)

    outs = [info(x) for x in schema.returns]
    written = [next(iter(x.alias_set)) for x in outs if x.is_write]
    return SchemaInfo(
        [info(x) for x in schema.arguments],
        outs,
        any(tag.name == "inplace_view" for tag in func.tags),
        written if written and len(written) == len(outs) else None,
    )


def autograd_would_have_decomposed(func: Any, flat_args: Any) -> bool:
    """Whether PyTorch makes the operator of others before it comes to a handler."""
    return bool(func._composite)


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a `__torch_dispatch__` is to return for a call whose result it computed as `out`: of a write the tensor written to,
    and for a view a result that stands on the memory of its argument.
    """
    if not isinstance(func, OpOverload):
        raise AssertionError(f"func must be an OpOverload, got {type(func)}")
    schema = get_alias_info(func)
    arguments = dict(zip([x.name for x in schema.args], args)) | dict(kwargs or {})

    def aliased(result: AliasInfo, written: bool) -> Any:
        found = [
            arguments[x.name]
            for x in schema.args
            if x.name in arguments and x.alias_set & result.alias_set and x.is_write is written
        ]
        return found[0] if found else None

    results = out if isinstance(out, (tuple, list)) else (out,)
    for result, made in zip(schema.outs if len(schema.outs) == len(results) else schema.outs * len(results), results):
        base = aliased(result, False) if result.alias_set and not result.is_write else None
        if isinstance(base, Tensor) and isinstance(made, Tensor) and is_traceable_wrapper_subclass(made):
            made._storage = base._storage
    if schema.outs_write_aliases is None:
        return out
    if len(schema.outs) == 1:
        return aliased(schema.outs[0], True)
    return type(out)([aliased(result, True) for result in schema.outs])
