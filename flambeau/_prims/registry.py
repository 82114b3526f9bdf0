"""How a primitive operator comes into being: a function of its arguments, and the schema that PyTorch lists for its name.

Each is an operator of the dispatcher with a record, as one that a program defines: its kernel serves every device, so that
what it gives on meta is worked out by the same function, and its graph ends there. Stands on dispatcher; used by the files of
this room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._prims_common import RETURN_TYPE
from flambeau.core.autograd.function import Function
from flambeau.dispatcher import builtin_schemas, keys
from flambeau.dispatcher.namespaces import ops
from flambeau.dispatcher.overloads import OpOverload
from flambeau.dispatcher.record import Gradient, define, record_of

__all__ = ["define_all", "elementwise", "primitive"]

_DECLARED: dict[str, Callable[..., Any]] = {}


def primitive(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: what computes `prims::<name>`, which checks its arguments too."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _DECLARED[name] = function
        return function

    return register


def _returns(schema: Any) -> RETURN_TYPE:
    if not schema.returns:
        return RETURN_TYPE.NONE
    if schema.returns[0].alias_info is None:
        return RETURN_TYPE.NEW
    return RETURN_TYPE.INPLACE if schema.is_mutable else RETURN_TYPE.VIEW


class BackwardsNotSupported(Function):
    """The end of a graph at a primitive operator that gives a view, or writes to its argument."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[], Any], *tensors: Any) -> Any:  # type: ignore[override]
        """run()."""
        return run()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """RuntimeError."""
        raise RuntimeError("backwards not supported on prim")


def _without_gradient(overload: OpOverload) -> Callable[..., Any]:
    """The kernel for Autograd of an operator whose results are its argument, or views of it."""
    from flambeau.dispatcher.calling import flat_tensors

    def kernel(*args: Any, **kwargs: Any) -> Any:
        def below() -> Any:
            with keys.AutoDispatchBelowAutograd():
                return overload(*args, **kwargs)

        tensors = flat_tensors([*args, *kwargs.values()])
        return BackwardsNotSupported.apply(below, *tensors) if any(x.requires_grad for x in tensors) else below()

    return kernel


def define_all() -> None:
    """Define every operator that a function was declared for, with PyTorch's schema and tags."""
    for name in builtin_schemas.names("prims"):
        function = _DECLARED.get(name)
        full = f"prims::{name}"
        if function is None or record_of(full) is not None:
            continue
        schema = builtin_schemas.schema_of(full, "default")
        record = define(schema, builtin_schemas.tags_of(full, "default"), __name__)
        record.defined_in_python = True
        record.set_kernel("CompositeExplicitAutograd", function, __name__)
        overload = getattr(ops.prims, name).default
        overload.schema, overload.return_type = str(schema).removeprefix(full), _returns(schema)
        overload.impl_aten = overload.prim_impl = overload.prim_meta_impl = function
        overload.__doc__ = function.__doc__
        if overload.return_type is RETURN_TYPE.NEW:
            record.gradient = Gradient(None, None)
        else:
            record.set_kernel("Autograd", _without_gradient(overload), __name__)


def elementwise(function: Callable[..., Any], names: Sequence[str], doc: str) -> None:
    """Declare operators of the arguments' elements: tensors of one shape, dtype and device, and numbers beside them."""
    from flambeau import _prims_common as utils

    def run(*args: Any) -> Any:
        utils.check_same_device(*args, allow_cpu_scalar_tensors=True)
        utils.check_same_shape(*args, allow_cpu_scalar_tensors=True)
        utils.check_same_dtype(*(x for x in args if not utils.is_cpu_scalar_tensor(x)))
        return function(*args)

    run.__doc__ = doc
    for name in names:
        _DECLARED[name] = run
