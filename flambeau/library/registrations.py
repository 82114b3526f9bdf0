"""What is registered for an operator besides kernels: its fake, gradient, vmap rule and autocast. Stands on libraries.

Each function takes an operator by its name ("ns::name"), its overload, or as the CustomOpDef that custom_op made; `lib`
is the Library that the registration lives as long as (for ever, without one).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from flambeau.base.device import device as Device
from flambeau.dispatcher.handlers import RULES
from flambeau.dispatcher.keys import key_of
from flambeau.dispatcher.namespaces import ops
from flambeau.dispatcher.overloads import OpOverload, OpOverloadPacket
from flambeau.dispatcher.record import Gradient, OperatorRecord, record_of
from flambeau.dispatcher.schema import qualified
from flambeau.library.libraries import Library, impl, library_for

__all__ = [
    "get_kernel", "impl_abstract", "lookup", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap",
]  # fmt: skip

Op = Any  # a name, an OpOverload or a CustomOpDef
DEFINED: dict[str, Any] = {}
"""The CustomOpDefs by name: what is registered for one of them by its name is what its method registers."""


def _definition(op: Op) -> Any:
    """The CustomOpDef that an operator is, or whose name it is; None for others."""
    if hasattr(op, "_opoverload"):
        return op
    return DEFINED.get(op.removesuffix(".default")) if isinstance(op, str) else None


def lookup(qualname: str) -> OpOverload:
    """The overload of that name, "ns::name" or "ns::name.overload". AttributeError if there is none."""
    namespace, short, overload = qualified(qualname)
    packet = getattr(getattr(ops, namespace), short)
    found: OpOverload = getattr(packet, overload or "default")
    return found


def _overload(op: Op) -> OpOverload:
    """The overload that an operator is given as."""
    if isinstance(op, str):
        return lookup(op)
    if isinstance(op, OpOverloadPacket):
        return op.default  # type: ignore[no-any-return]
    if isinstance(op, OpOverload):
        return op
    found = getattr(op, "_opoverload", None)
    if not isinstance(found, OpOverload):
        raise ValueError(f"expected an operator's name, OpOverload or CustomOpDef, got {type(op)}")
    return found


def _record(op: Op) -> OperatorRecord:
    overload = _overload(op)
    if overload._record is None:
        raise NotImplementedError(
            f"{overload} is an operator of PyTorch itself: flambeau calls those directly and takes no registrations "
            "for them; override calls with __torch_function__ or a torch.overrides.TorchFunctionMode"
        )
    return overload._record


def register_kernel(op: Op, device_types: Any, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """Register what computes the operator on types of devices ("cpu", a sequence of them, or None for all); a decorator
    without `func`.
    """
    definition = _definition(op)
    if definition is not None:
        return definition.register_kernel(device_types, func)
    name = op if isinstance(op, str) else op.name()
    return impl(name, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(
    op: Op, func: Callable | None = None, /, *, lib: Library | None = None, _stacklevel: int = 1, allow_override: bool = False
) -> Any:
    """Register the fake of an operator: a function that gives results of the right shape, dtype and device without
    values.

    It answers calls with tensors on the meta device. RuntimeError if there is no such operator, or if it has a fake
    already.
    """
    definition = _definition(op)
    if definition is not None:
        return definition.register_fake(func) if func is not None else definition.register_fake
    name = op if isinstance(op, str) else op.name()

    def register(function: Callable) -> Callable:
        record = record_of(name)
        if record is None or record.schema is None:
            raise RuntimeError(f"operator {name} does not exist")
        if not allow_override:
            for key in ("Meta", "CompositeImplicitAutograd"):
                if key in record.kernels:
                    raise RuntimeError(
                        f"register_fake(...): the operator {name} already has an DispatchKey::{key} implementation "
                        "via a pre-existing torch.library or TORCH_LIBRARY registration. Please either remove that "
                        "registration or don't call register_fake."
                    )
            if record.fake is not None:
                raise RuntimeError(
                    f"register_fake(...): the operator {name} already has an fake impl registered. To override, "
                    "pass allow_override=True."
                )
        library_for(record.namespace, lib)._set(record, "fake", function)
        return function

    return register if func is None else register(func)


def impl_abstract(qualname: str, func: Callable | None = None, *, lib: Library | None = None, _stacklevel: int = 1) -> Any:
    """The older name of register_fake."""
    warnings.warn(
        "`torch.library.impl_abstract` was renamed to `torch.library.register_fake`. Please use that instead; we "
        "will remove `torch.library.impl_abstract` in a future version of PyTorch.",
        DeprecationWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Op, backward: Callable, /, *, setup_context: Callable | None = None, lib: Library | None = None
) -> None:
    """Register the gradient of an operator.

    backward(ctx, *gradients of the results) gives a gradient (or None) per positional argument, a list of them for a
    list of tensors; setup_context(ctx, inputs, output) keeps in ctx what it needs (with keyword_only_inputs, if the
    operator has such). RuntimeError for operators that write to their arguments, NotImplementedError for tensors among
    keyword-only ones.
    """
    definition = _definition(op)
    if definition is not None:
        definition.register_autograd(backward, setup_context=setup_context)
        return
    record = _record(op)
    check_differentiable(record)
    library_for(record.namespace, lib)._set(record, "gradient", Gradient(backward, setup_context))


def check_differentiable(record: OperatorRecord) -> None:
    """Raise the error of an operator that can't be given a gradient."""
    schema = record.schema
    assert schema is not None
    if schema.is_mutable or any(result.alias_info is not None for result in schema.returns):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {record} with schema {schema}. Please "
            "create a functional operator and register an autograd formula for that."
        )
    if any(argument.kwarg_only and "Tensor" in argument.type.written for argument in schema.arguments):
        raise NotImplementedError(
            "register_autograd with kwarg-only Tensor args. In the original definition of the op, please make your "
            f"tensors not kwarg-only. Got: {schema}"
        )


def register_vmap(op: Op, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """Register what an operator does under vmap: func(info, in_dims, *args) -> (output, out_dims); a decorator without
    `func`.

    info has batch_size and randomness; in_dims says per argument where the batch is, or None.
    """
    definition = _definition(op)
    if definition is not None:
        return definition.register_vmap(func)
    record = _record(op)

    def register(function: Callable) -> None:
        library_for(record.namespace, lib)._set(record, "vmap", function)

    return register if func is None else register(func)


def register_autocast(op: Op, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> Any:
    """Have autocast convert the floating point tensors among an operator's arguments to the dtype `cast_inputs`;
    inside, it is off.

    device_type: "cpu" or "cuda"; ValueError for others.
    """
    definition = _definition(op)
    if definition is not None:
        return definition.register_autocast(device_type, cast_inputs)
    kind = Device(device_type).type
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    record = _record(op)
    record.autocast[kind] = cast_inputs
    library_for(record.namespace, lib)._undo.append(lambda: record.autocast.pop(kind, None) and None)
    return None


def register_torch_dispatch(
    op: Op, torch_dispatch_class: type, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Have func(cls or mode, overload, types, args, kwargs) answer the operator for a class of tensors with a
    `__torch_dispatch__`, or for a class of modes; a decorator if `func` is left out.
    """
    definition = _definition(op)
    overload = _overload(op if definition is None else definition._opoverload)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        key = overload._name, torch_dispatch_class
        RULES[key] = function
        library_for(overload._namespace, lib)._undo.append(lambda: RULES.pop(key, None) and None)
        return function

    return register if func is None else register(func)


def get_kernel(op: Op, dispatch_key: Any) -> Callable[..., Any]:
    """The kernel of an operator for a dispatch key, called as kernel(keyset, *args). RuntimeError if there is none."""
    overload = _overload(op)
    key = key_of(dispatch_key)
    found = None if overload._record is None else overload._record.kernels.get(key.name)
    if found is None:
        raise RuntimeError(f"No kernel for dispatch key {key.name} registered for {overload.name()}.")
    kernel = found

    def call(keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        return kernel(*args, **kwargs)

    return call
