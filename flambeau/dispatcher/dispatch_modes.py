"""Modes that see operators as PyTorch's dispatcher names them: `TorchDispatchMode`.

While such a mode is on, a public function is answered here instead of by itself: what PyTorch computes by other operators runs
its own body, or the one that `lowerings` writes in PyTorch's operators; anything else is bound to the schema of an overload, and
the innermost mode is handed that. What the mode calls belongs to the modes outside, and at last to the function. Stands on
core.modes.interception, which has public functions ask, and on overloads; used by torch.utils._python_dispatch.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from flambeau.base import device as devices
from flambeau.base.symbolic.numbers import SymInt
from flambeau.core.modes import interception, modes, overrides
from flambeau.core.modes.autocast import autocasting, cast_arguments
from flambeau.core.modes.dispatching import dispatching
from flambeau.core.modes.looking import LOOK_THEMSELVES
from flambeau.core.operator import pointwise, return_types, schema_index
from flambeau.core.operator import view as views
from flambeau.core.operator.publishing import LATE, NAMESPACE, OPERATORS, RENAMED
from flambeau.core.operator.schemas import listed, listed_name
from flambeau.core.tensor.fakes import is_fake
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import builtin_schemas, calling, derivatives, expressions, graphs, replaced, wrapper_geometry
from flambeau.dispatcher.aten import (
    composites,
    contractions,
    decompositions,
    indexing,
    lowerings,
    random_lowerings,
    recurrent_lowerings,
    resampling_lowerings,
    shapes,
)
from flambeau.dispatcher.overloads import OpOverload
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import IntType, ListType, OptionalType
from flambeau.ops.creation.copy import convert, move
from flambeau.ops.elementwise.foreach import FOREACH
from flambeau.ops.indexing.index import index
from flambeau.ops.nn import loss, margin_loss
from flambeau.ops.views.view import _unsafe_view

__all__ = [
    "DispatchMode", "as_public", "composites", "contractions", "decompositions", "derivatives", "indexing",
    "lowered", "made_of_others", "name_of", "random_lowerings", "recurrent_lowerings", "resampling_lowerings", "resolve",
    "shapes", "wrapper_geometry",
]  # fmt: skip

# Names of functions that are an operator of another name.
_RENAMED = {"reshape": "view", "conj_physical": "_conj_physical"}
_PYTHON_OPERATORS = {
    "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__matmul__": "matmul",
    "__getitem__": "", "__setitem__": "",
}  # fmt: skip


class DispatchMode:
    """A mode below autograd; `__torch_dispatch__(func, types, args, kwargs)` answers every operator while it is on."""

    #: Answers public functions before what PyTorch makes of other operators is taken apart, as `answer` below; None for most.
    _before_composites: Callable[..., Any] | None = None
    #: Answers torch.cond and its kin, whose functions it records; None for most, which see what the functions call.
    _control_flow: Any = None
    #: Answers overloads that are called by name, (overload, args, kwargs), above autograd; None for modes below it.
    _called: Callable[..., Any] | None = None
    #: Gives a tensor that keeps the values of the one it is asked for, before that is written to; None for modes that see a copy.
    _snapshot: Callable[[Any], Any] | None = None
    #: Told of a tensor that has the values of another one, for good; None for modes that couldn't know it for the same.
    _stand_for: Callable[[Any, Any], None] | None = None
    #: Told that a random stream was put into another state, which no operator does.
    _reseeded: Callable[[], None] | None = None
    #: Told of a tensor whose writes were counted up, though its memory stays as it was.
    _counted: Callable[[Any], None] | None = None
    #: Told whether gradients are on from now on, at each switch of the program's own; None for modes that don't record it.
    _switched_grad: Callable[[bool], None] | None = None
    #: Told of a function that gives the values of tensors as Python's, and of these tensors.
    _reads: Callable[[str, list[Any]], None] | None = None
    #: Told of a block of autocast that begins, with None of one that ends.
    _switched_autocast: Callable[[Any], None] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        held = self.__dict__.setdefault("_held", [])
        held.append(interception.AttentionBelow())
        modes.local.dispatch_modes.append(self)
        modes.active.enter()
        return self

    def __exit__(self, *exception: object) -> None:
        modes.active.leave()
        modes.local.dispatch_modes.pop()
        self.__dict__["_held"].pop()


# ---------------------------------------------------------------- public functions


def _public_functions() -> Iterable[Callable[..., Any]]:
    """What is answered here besides the methods of Tensor: functions, operators that have none, and views."""
    yield from NAMESPACE.values()
    yield from (f.__wrapped__ for f in NAMESPACE.values() if hasattr(f, "__wrapped__"))  # as this package calls them
    yield from FOREACH.values()
    yield from views.DECLARED
    yield from RENAMED
    yield from (convert, move, index, _unsafe_view)
    yield from (
        f
        for room in (loss, margin_loss)
        for name, f in vars(room).items()
        if isinstance(f, FunctionType) and not name.startswith("_") and f.__name__ == name
    )
    for declared in OPERATORS.values():
        made = getattr(declared, "public", None)
        if made is not None:
            yield made
            if declared.in_place is not None:
                yield declared.in_place


@functools.cache
def _concerned() -> frozenset[Any]:
    """The functions that are answered here; others that fx has ask too are Python functions around these."""
    methods = [f for f in vars(Tensor).values() if isinstance(f, FunctionType)]
    return frozenset([f for f in _public_functions() if isinstance(f, FunctionType)] + methods)


@functools.cache
def _is_lowered(function: FunctionType) -> bool:
    """Whether it is a function of torch.nn.functional that PyTorch computes by other operators than its body calls, or one of
    torch that is an operator there.
    """
    name = function.__name__
    if composites.has_bodies(name) and getattr(sys.modules[__name__.partition(".")[0]], name, None) is function:
        return True
    return function.__module__.endswith(".nn.functional") and name in lowerings.LOWERINGS and name not in NAMESPACE


@functools.cache
def name_of(function: Callable[..., Any]) -> str:
    """The operator that a function is, by the name that PyTorch has for it, without "aten::"; by its whole name one that only a
    declaration has; "" for none.
    """
    own = function.__name__
    declared = getattr(function, "operator", None)
    if own in _PYTHON_OPERATORS:
        return _PYTHON_OPERATORS[own]
    if declared is not None:
        name = (listed_name(declared) or declared.name) + "_" * (own.endswith("_") and not own.startswith("__"))
    else:
        name = own
    return listed(_RENAMED.get(name, name), declared is not None) or schema_index.packet_of(function)


@functools.cache
def graph_operator(function: Callable[..., Any]) -> str | None:
    """Of the function of a declaration that PyTorch doesn't list, the whole name of the operator that graphs of calls have for
    it, "" where it is what public functions are made of; also "" of a function whose body is to be read, as it isn't the operator
    of its name. None for any other function. NotImplementedError where the declaration doesn't say what the operator returns.
    """
    if getattr(function, "body_is_read", False):
        return ""
    name = name_of(function)
    declared = schema_index.unlisted(name) if "::" in name else None
    if declared is None or not declared.is_graph_operator:
        return None if declared is None else ""
    if any(line.partition(" | ")[0].endswith("-> Any") for line in declared.schemas[name].values()):
        raise NotImplementedError(
            f"{declared.name}: its declaration doesn't say what it returns; annotate the result (-> Tensor), or write its "
            "schema=, so that it can be an operator of a graph"
        )
    return name


@functools.cache
def _is_view_front(name: str) -> bool:
    return any(view.__name__ == name for view in views.DECLARED)


_READING = frozenset(["tolist", "numpy", "__array__", "__dlpack__", "equal", "allclose"])


def answer(function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call of a public function gives while a mode is on; `own` is the function as it is without one."""
    stack = modes.local.dispatch_modes
    if stack and stack[-1]._before_composites is not None:
        asked = overrides.overriding_arguments([*args, *kwargs.values()])
        if asked and any(dispatching(type(x)) for x in asked):  # made of tensors that the tracer knows
            return overrides.dispatch(function, args, kwargs, asked)
        return stack[-1]._before_composites(function, own, args, kwargs)
    if stack and stack[-1]._reads is not None and function.__name__ in _READING:
        stack[-1]._reads(function.__name__, [x for x in args if isinstance(x, Tensor)])
    if (function not in _concerned() and not _is_lowered(function)) or getattr(function, "body_is_read", False):
        return own(*args, **kwargs)
    asked = overrides.overriding_arguments([*args, *kwargs.values()])
    if asked:
        if any(dispatching(type(x)) for x in asked):
            return overrides.dispatch(function, args, kwargs, asked)
        transformed(args, kwargs)
        return own(*args, **kwargs)  # asks them itself, or is made of what does
    declared = getattr(function, "operator", None)
    if modes.local.autocast_enabled.get("cpu") and declared is not None and autocasting(declared):
        with cast_arguments(declared, args, kwargs) as (given, keywords):
            return _answer(function, own, tuple(given), keywords)
    return _answer(function, own, args, kwargs)


def transformed(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an argument belongs to a transform, such as vmap, which answers first.

    The rules of transforms know sizes as numbers. So symbolic sizes of the arguments become numbers here, with a guard each, as
    where a program asks for the number itself: otherwise the example's would lie in the graph, and nothing would say so.
    """
    given = list(_tensors([*args, *kwargs.values()]))
    if not any(hasattr(type(x), "held") for x in given):
        return False
    for x in given:
        while hasattr(type(x), "held"):
            x = x.held  # type: ignore[attr-defined]
        if is_fake(x._layout):
            for n in x.shape:
                operator.index(n)
    return True


def _tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _tensors(x)


def _answer(function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = name_of(function)
    found = _overload(function, name, args, kwargs) if name in replaced.names else None
    if found is not None:
        body = replaced.body_of(found[0])
        if body is not None:
            return as_public(name, body(*found[1], **found[2]))
    try:
        result = lowered(function, own, args, kwargs)
    except graphs.Reached:
        return own(*args, **kwargs)
    if result is not NotImplemented:
        return result
    if composites.has_bodies(name) and kwargs.get("out") is None:
        found = _overload(function, name, args, kwargs) if found is None else found
        result = NotImplemented if found is None else opened(*found)
        if result is not NotImplemented:
            return as_public(name, result)
    if name and made_of_others(function, name):
        return own(*args, **kwargs)
    if found is None and name:
        found = _overload(function, name, args, kwargs)
    declared = getattr(function, "operator", None)
    if found is None and declared is not None and not getattr(declared, "composite", False) and kwargs.get("out") is None:
        packet = schema_index.own_packet(function)  # a form that PyTorch's operator hasn't
        found = resolve(packet, args, kwargs) if packet and packet != name else None
    if found is None:
        return own(*args, **kwargs)
    overload, values, named = found
    if graphs.is_opened(overload):
        return own(*args, **kwargs)
    result = graphs.run(overload, values, named)
    schema = overload._schema
    if schema.arguments and schema.arguments[0].is_write and not schema.arguments[0].is_out and len(schema.returns) == 1:
        return args[0]
    if kwargs.get("requires_grad") and not isinstance(kwargs["requires_grad"], Tensor):
        return result.requires_grad_()
    return as_public(name, result)


def opened(overload: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the operators give that PyTorch makes an overload of; NotImplemented where that isn't written here, or it is its own
    body that runs.
    """
    body = composites.body_of(overload)
    if body is None:
        return NotImplemented
    try:
        return body(*args, **kwargs)
    except graphs.Reached:
        return NotImplemented


def _overload(function: FunctionType, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The overload that a call means, and its arguments; a function that looks by itself can't tell whether an argument was given
    by its name, as some overloads want it.
    """
    found = resolve(name, args, kwargs)
    if found is None and len(args) > 1 and function in LOOK_THEMSELVES:
        names = list(interception.plain_signature(function).parameters)[: len(args)]
        found = resolve(name, args[:1], dict(zip(names[1:], args[1:])) | kwargs)
    return found


def lowered(function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives, written in the operators that PyTorch makes it of; NotImplemented where its body serves."""
    name = name_of(function)
    rule = lowerings.LOWERINGS.get(function.__name__ if "::" in name else name or function.__name__)
    return NotImplemented if rule is None or "out" in kwargs else rule(own, *args, **kwargs)


def made_of_others(function: FunctionType, name: str) -> bool:
    """Whether a function's body calls the operators that it is made of, which are answered themselves."""
    declared = getattr(function, "operator", None)
    packet = builtin_schemas.qualified(name)
    composite = all(
        builtin_schemas.is_composite(packet, o) or builtin_schemas.is_script(packet, o)
        for o in builtin_schemas.overloads_of(packet)
    )
    if declared is not None:
        return composite and getattr(declared, "composite", False)
    return composite or (_is_view_front(name) and function not in views.DECLARED)


def overload_of(function: FunctionType, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """(overload, args, kwargs) of the call of an operator that PyTorch doesn't make of others; None for any other function."""
    name = name_of(function) if function in _concerned() else ""
    return None if not name or made_of_others(function, name) else resolve(name, args, kwargs)


def as_public(name: str, result: Any) -> Any:
    """A result of a mode as the public function returns it: several results in a class of their own."""
    if isinstance(result, (tuple, list)):
        kind = getattr(return_types, name, None)
        if kind is not None and len(result) == kind.n_fields:
            return kind(result)
        return tuple(result)
    return result


# ---------------------------------------------------------------- the overload of a call


def resolve(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], prepared: Callable[..., Any] | None = None
) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]] | None:
    """The overload of the operator (`name_of`) that a call of the public function means, and its arguments by the schema; None
    for none.

    prepared(schema, args, kwargs): the arguments in another form for this schema.
    """
    from flambeau.dispatcher.namespaces import ops

    namespace, _, short = builtin_schemas.qualified(name).partition("::")
    packet = getattr(getattr(ops, namespace), short)
    composite: Any = None  # an overload that PyTorch makes of others, if no other one fits
    by_value: Any = None  # one that takes a number where a tensor is given
    named = {("self" if key == "input" else key): value for key, value in kwargs.items() if key != "out" or value is not None}
    with_out = "out" in named
    for overload_name in packet.overloads():
        overload = getattr(packet, overload_name)
        schema = overload._schema
        if with_out != any(a.is_out for a in schema.arguments) or builtin_schemas.is_script(schema.name, overload_name):
            continue
        own = _with_outs(schema, named)
        given = _fitted(schema, *((args, own) if prepared is None else prepared(schema, args, own)))
        if given is None:
            continue
        try:
            values = calling.bind(schema, given[0], _with_options(schema, given[1]), numbers=packet.takes_numbers)
        except RuntimeError:
            continue
        found = overload, *calling.split(schema, values)
        if len(calling.flat_tensors(values)) < len(calling.flat_tensors([*given[0], *given[1].values()])):
            by_value = by_value or found
        elif not overload._composite:
            return found
        else:
            composite = composite or found
    return composite or by_value  # type: ignore[no-any-return]


def _with_outs(schema: FunctionSchema, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments with several results that are to be written to by the names that the schema has for them."""
    outs = [a.name for a in schema.arguments if a.is_out]
    given = kwargs.get("out")
    if len(outs) < 2 or not isinstance(given, (tuple, list)) or len(given) != len(outs):
        return kwargs
    return {n: x for n, x in kwargs.items() if n != "out"} | dict(zip(outs, given))


def _with_options(schema: FunctionSchema, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments with those that PyTorch's functions always name where they make a tensor of no other one."""
    names = {a.name for a in schema.arguments}
    if not names.issuperset(("device", "pin_memory")) or any(str(a.type) == "Tensor" for a in schema.arguments):
        return kwargs
    return {**kwargs, "device": kwargs.get("device") or devices.get_default_device(), "pin_memory": False}


_ONE_BY_ONE = (int, SymInt)  # sizes, which may be given as arguments of their own


def _fitted(schema: FunctionSchema, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a public call in the forms of a schema: sizes given one by one as a list, lists for tuples."""
    arguments = schema.arguments
    names = {a.name for a in arguments}
    given = list(args)
    for at, argument in enumerate(arguments[: schema.positional]):
        if isinstance(argument.type, ListType) and at < len(given) and isinstance(given[at], _ONE_BY_ONE):
            end = next((i for i, x in enumerate(given) if i >= at and not isinstance(x, _ONE_BY_ONE)), len(given))
            if argument.type.count is None:
                given[at:end] = [given[at:end]]
            break
        if str(argument.type) == "List[Tensor]" and at < len(given) and isinstance(given[at], Tensor):
            given[at:] = [given[at:]]  # tensors one by one
            break
    named = dict(kwargs)
    if any(_is_truth_for_number(a, given[at] if at < len(given) else named.get(a.name)) for at, a in enumerate(arguments)):
        return None
    if "dtype" not in names and named.get("dtype", 0) is None:
        named.pop("dtype")
    for key in ("requires_grad", "layout", "pin_memory", "names"):
        if key not in names and key in named:
            named.pop(key)
    return given, named


LATE.append(lambda function: _concerned.cache_clear())


def _is_truth_for_number(argument: Any, value: Any) -> bool:
    """Whether a bool is given where a schema has an integer, or several: it belongs to another overload, var(x, unbiased)."""
    kind = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
    if isinstance(kind, ListType):
        kind = kind.element
        return type(kind) is IntType and (
            value.__class__ is bool or (isinstance(value, (list, tuple)) and any(x.__class__ is bool for x in value))
        )
    return type(kind) is IntType and value.__class__ is bool


interception.attend_modes(answer, _public_functions)
pointwise.by_steps = expressions.gradient
