"""A call of an operator with a record: its arguments are fitted to the schema, then the keys are asked in turn.

First classes and modes that override calls, then autocast, then autograd, then the kernel of the device (or the fake,
on the meta device), and at last kernels for all devices. Stands on record, keys, gradients; used by overloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.device import stand_ins_in_use
from flambeau.base.symbolic.numbers import SymFloat, SymInt
from flambeau.core.modes import modes, overrides
from flambeau.core.modes.interception import watching
from flambeau.core.modes.modes import autocast_cast
from flambeau.core.tensor.fakes import UnsupportedOperatorException
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import fakes, gradients, handlers, keys
from flambeau.dispatcher.keys import DispatchKey, DispatchKeySet
from flambeau.dispatcher.record import OperatorRecord, fallthrough_kernel
from flambeau.dispatcher.schema import Argument, FunctionSchema
from flambeau.dispatcher.schema_types import ListType, Refused, TensorType

__all__ = ["answer", "answer_unasked", "bind", "call", "fill_defaults", "flat_tensors", "redispatch", "split"]


_AUTOCAST_CPU, _AUTOGRAD_CPU = DispatchKey["AutocastCPU"], DispatchKey["AutogradCPU"]


def flat_tensors(values: Sequence[Any]) -> list[Tensor]:
    """The tensors among values and in their lists."""
    found: list[Tensor] = []
    for x in values:
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            found += flat_tensors(x)
    return found


# ---------------------------------------------------------------- arguments and the schema


def bind(schema: FunctionSchema, args: Sequence[Any], kwargs: dict[str, Any], numbers: bool = False) -> list[Any]:
    """The arguments in the order of the schema, converted to its types, defaults filled in; `numbers`: these are taken for
    tensors too. RuntimeError if they don't fit.
    """
    name, arguments = schema.name, schema.arguments
    if len(args) + len(kwargs) > len(arguments):
        raise RuntimeError(
            f"{name}() expected at most {len(arguments)} argument(s) but received {len(args) + len(kwargs)} "
            f"argument(s). Declaration: {schema}"
        )
    values: list[Any] = []
    used = 0
    for position, argument in enumerate(arguments):
        if position < len(args):
            if argument.kwarg_only:
                raise RuntimeError(
                    f"{name}() takes {schema.positional} positional argument(s) but {len(args)} was/were given.  "
                    f"Declaration: {schema}"
                )
            value = args[position]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
            used += 1
        elif argument.has_default_value():
            default = argument.default_value
            values.append(list(default) if isinstance(default, list) else default)
            continue
        else:
            raise RuntimeError(f"{name}() is missing value for argument '{argument.name}'. Declaration: {schema}")
        if numbers and isinstance(argument.type, TensorType) and isinstance(value, (int, float, complex, SymInt, SymFloat)):
            values.append(value)
            continue
        try:
            values.append(argument.type.take(value))
        except Refused as reason:
            raise RuntimeError(
                f"{name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but instead found "
                f"type "
                f"'{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}\nDeclaration: {schema}\n{reason}"
            ) from None
    if used != len(kwargs):
        known = [argument.name for argument in arguments]
        for key in kwargs:
            if key not in known:
                raise RuntimeError(f"Unknown keyword argument '{key}' for operator '{name}'. Schema: {schema}")
            if known.index(key) < len(args):
                raise RuntimeError(f"Argument '{key}' specified both as positional and keyword argument. Schema: {schema}")
    return values


def _left_out(argument: Argument, value: Any) -> bool:
    """Whether a value equals the argument's default, so that a kernel needn't be told."""
    default = argument.default_value
    if not argument.has_default_value():
        return False
    return value is default or (type(value) is type(default) and not flat_tensors([value]) and bool(value == default))


def split(schema: FunctionSchema, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) as a kernel gets them: what equals its default is left out, by position only from the end."""
    arguments, count = schema.arguments, schema.positional
    args = list(values[:count])
    while args and _left_out(arguments[len(args) - 1], args[-1]):
        args.pop()
    named = zip(arguments[count:], values[count:])
    return tuple(args), {argument.name: value for argument, value in named if not _left_out(argument, value)}


def fill_defaults(schema: FunctionSchema, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) with all defaults, what is keyword-only by name."""
    values = bind(schema, args, kwargs)
    count = schema.positional
    return tuple(values[:count]), {a.name: v for a, v in zip(schema.arguments[count:], values[count:])}


def result_of(schema: FunctionSchema, result: Any) -> Any:
    """What a kernel returned, as the schema has it: a tuple of several results, a list for a list. RuntimeError if it
    can't be.
    """
    returns = schema.returns
    if not returns:
        if result is not None:
            raise RuntimeError(
                f"Expected PythonKernelHolder for {schema.name} to return None but it returned something else instead."
            )
        return None
    if len(returns) == 1:
        return _one_result(returns[0].type, result)
    if not isinstance(result, (tuple, list)):
        raise RuntimeError(
            f"Expected PythonKernelHolder for {schema.name} to return a tuple or list of {len(returns)} elements, "
            f"but it returned {type(result).__name__}"
        )
    if len(result) != len(returns):
        raise RuntimeError(
            f"Expected PythonKernelHolder for {schema.name} to return {len(returns)} elements, but it returned {len(result)}"
        )
    return tuple(_one_result(made.type, value) for made, value in zip(returns, result))


def _one_result(kind: Any, value: Any) -> Any:
    if isinstance(kind, TensorType):
        if value is None or isinstance(value, Tensor):
            return value
        raise RuntimeError(f"Unable to cast {value!r} to Tensor")
    if isinstance(kind, ListType) and isinstance(value, tuple):
        return list(value)
    return value


# ---------------------------------------------------------------- the call


def call(record: OperatorRecord, caller: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The answer to a call; `caller` is the object that was called, which overriding classes and modes get to see."""
    if modes.active.count and modes.local.modes:
        return overrides.dispatch_to_mode(caller, tuple(args), kwargs)
    found = overrides.overriding_arguments([*args, *kwargs.values()])
    if found:
        return overrides.dispatch(caller, tuple(args), kwargs, found)
    observer = modes.local.observer
    if observer is not None:
        return observer.operator(record.packet_name, answer_unasked, record, args, kwargs)
    return answer_unasked(record, args, kwargs)


def answer_unasked(record: OperatorRecord, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The answer to a call, which classes and modes that override calls were asked for before."""
    assert record.schema is not None
    values = bind(record.schema, args, kwargs, numbers=record.takes_numbers)
    stand_ins = stand_ins_in_use()
    if stand_ins is not None and not _recorded_as_it_is():
        values = stand_ins.mode.admitted(_overload_of(record), values)
    return answer(record, values)


def _recorded_as_it_is() -> bool:
    """Whether the innermost mode is a tracer's, to which tensors that aren't fake are constants of the graph."""
    stack = modes.local.dispatch_modes
    return bool(stack) and stack[-1]._before_composites is not None


def answer(record: OperatorRecord, values: list[Any]) -> Any:
    """The result of a call whose arguments are those of the schema, by autocast and whoever comes behind it."""
    local = modes.local
    if local.autocast_enabled.get("cpu") and not keys.local.excluded.has(_AUTOCAST_CPU):
        kernel = record.kernels.get("AutocastCPU")
        if (kernel is not None or "cpu" in record.autocast) and _device_key(flat_tensors(values)) == "CPU":
            if kernel is not None and kernel is not fallthrough_kernel:
                return _run(record, kernel, values)
            if "cpu" in record.autocast:
                with keys.ExcludeDispatchKeyGuard(_AUTOCAST):
                    return answer(record, [_cast(x, record.autocast["cpu"]) for x in values])
    return _below_autocast(record, values)


_AUTOCAST = DispatchKeySet(key for key in DispatchKey if key.name.startswith("Autocast"))


def _cast(x: Any, to: Any) -> Any:
    if isinstance(x, Tensor):
        return autocast_cast(x, to) if x._layout.dtype.is_floating_point else x
    return [_cast(y, to) for y in x] if isinstance(x, list) else x


def _device_key(tensors: Sequence[Tensor]) -> str | None:
    """The key of the device that the tensors are on, or that those made in a fake tensor mode are on; None for neither."""
    if not tensors:
        return None if stand_ins_in_use() is None else "Meta"
    return "Meta" if any(x._layout.device.type == "meta" for x in tensors) else "CPU"


def _below_autocast(record: OperatorRecord, values: list[Any]) -> Any:
    tensors = flat_tensors(values)
    device = _device_key(tensors)
    if device is None or keys.local.excluded.has(_AUTOGRAD_CPU) or modes.local.inference:
        return backend(record, device, values)
    kernels = record.kernels
    kernel = kernels.get(f"Autograd{device}") or kernels.get("Autograd")
    if kernel is fallthrough_kernel:
        return backend(record, device, values)
    if kernel is not None:
        return _run(record, kernel, values)
    if record.gradient is not None:
        return gradients.recorded(record, values, lambda given: backend(record, device, given))
    if _of_device(record, device) is None and "CompositeImplicitAutograd" in kernels:
        return _run(record, kernels["CompositeImplicitAutograd"], values)
    result = backend(record, device, values)
    if modes.local.grad and any(x._node is not None for x in tensors):
        gradients.warn_in_backward(record.packet_name, tensors, flat_tensors([result]))
    return result


def redispatch(record: OperatorRecord, keyset: DispatchKeySet, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The call as the keys of `keyset` answer it."""
    assert record.schema is not None
    values = bind(record.schema, args, kwargs, numbers=record.takes_numbers)
    if keyset.has(_AUTOCAST_CPU):
        return answer(record, values)
    if keyset & keys.AUTOGRAD != DispatchKeySet(()):
        return _below_autocast(record, values)
    return backend(record, _device_key(flat_tensors(values)), values)


def _of_device(record: OperatorRecord, device: str | None) -> Callable | None:
    """The kernel that is meant for a device, be it one for all devices that says nothing of gradients."""
    kernels = record.kernels
    names: tuple[str, ...] = ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd")
    names = ("BackendSelect", *names) if device is None else (device, *names)
    for name in names:
        kernel = kernels.get(name)
        if kernel is not None and kernel is not fallthrough_kernel:
            return kernel
        if name == "Meta" and record.fake is not None:
            return fakes.without_values(record, record.fake)
    return None


def backend(record: OperatorRecord, device: str | None, values: list[Any]) -> Any:
    """The result of the kernel for a device, or what a mode or a tensor's class answers. NotImplementedError, in PyTorch's words,
    if there is none.
    """
    if (modes.local.dispatch_modes or watching()) and handlers.answers(values, {}):
        assert record.schema is not None
        made = handlers.hand_over(_overload_of(record), *split(record.schema, values))
        return result_of(record.schema, made)
    kernel = _of_device(record, device) or record.kernels.get("CompositeImplicitAutograd")
    if kernel is None:
        if device == "Meta" and fakes.mode_of(values) is not None:
            raise UnsupportedOperatorException(_overload_of(record))
        raise NotImplementedError(_nobody(record, device))
    result = _run(record, kernel, values)
    for position in record.written:
        for x in flat_tensors([values[position]]):
            x._storage.writes += 1
    return result


def _overload_of(record: OperatorRecord) -> Any:
    """The object of torch.ops for a record."""
    from flambeau.dispatcher.namespaces import ops

    name, _, overload = record.name.partition(".")
    namespace, _, short = name.partition("::")
    return getattr(getattr(getattr(ops, namespace), short), overload or "default")


def _nobody(record: OperatorRecord, device: str | None) -> str:
    available = ", ".join(sorted(record.kernels))
    if device is None:
        return (
            "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), but no "
            f"fallback function is registered for schema {record.name}.  This usually means that this function "
            "requires a non-empty list of Tensors, or that you (the operator writer) forgot to register a fallback "
            f"function.  Available functions are [{available}]."
        )
    if device == "Meta":
        return (
            f"{record.name}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta "
            "kernel registered. You may have run into this message while using an operator with PT2 compilation "
            "APIs (torch.compile/torch.export); in order to use this operator with those APIs you'll need to add a "
            "fake impl. Please see the following for next steps:  "
            "https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html"
        )
    return (
        f"Could not run '{record.name}' with arguments from the '{device}' backend. This could be because the "
        "operator doesn't exist for this backend, or was omitted during the selective/custom build process (if "
        "using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
        f"https://fburl.com/ptmfixes for possible resolutions. '{record.name}' is only available for these "
        f"backends: [{available}]."
    )


def _run(record: OperatorRecord, kernel: Callable, values: Sequence[Any]) -> Any:
    schema = record.schema
    assert schema is not None
    args, kwargs = split(schema, values)
    if getattr(kernel, "takes_keyset", False):
        args = (_keyset(values), *args)
    return result_of(schema, kernel(*args, **kwargs))


def _keyset(values: Sequence[Any]) -> DispatchKeySet:
    """The keys of the tensors among the arguments, less those that are switched off."""
    device = _device_key(flat_tensors(values)) or "CPU"
    return DispatchKeySet((DispatchKey[device], DispatchKey["Autograd" + device])) - keys.local.excluded
