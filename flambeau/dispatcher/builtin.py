"""PyTorch's own operators by the names of its dispatcher: what of flambeau answers `torch.ops.aten.add.Tensor`, and
`torch.ops.flambeau.frobnicate`, which only a declaration has.

An overload is answered by a function made from its schema, which takes the schema's arguments and hands them to what flambeau
has: an implementation of that very operator (the room `aten`), else the function, operator or method of its name. An operator
that PyTorch has and flambeau has not exists all the same, as a key of tables and to be compared with; calling it raises
NotImplementedError.
Stands on core.operator.variants, aten and builtin_schemas; used by overloads and namespaces.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from flambeau.base.dtype import int64
from flambeau.base.layout import contiguous_format, strided
from flambeau.core.modes.interception import plain_signature
from flambeau.core.operator import out_argument
from flambeau.core.operator.facets import record_of
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS, compile_source
from flambeau.core.operator.schema_index import unlisted
from flambeau.core.operator.schemas import PREFIXES
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.schema import Argument, FunctionSchema
from flambeau.dispatcher.schema_types import ListType
from flambeau.dispatcher.tags import Tag
from flambeau.ops.elementwise.foreach import FOREACH

__all__ = ["answer_of", "overloads_of", "targets"]

# Names of the dispatcher for what is only a Python function elsewhere.
_PRIM = {
    "device": lambda a: a.device,
    "dtype": lambda a: a.dtype,
    "layout": lambda a: a.layout,
    "requires_grad": lambda a: a.requires_grad,
    "data": lambda a: a.data,
    "grad": lambda a: a.grad,
    "itemsize": lambda a: a.itemsize,
    "nbytes": lambda a: a.nbytes,
}


def overloads_of(namespace: str, name: str) -> tuple[str, ...] | None:
    """The overloads that PyTorch's operator has, or a declared one; None if there is no operator of that name."""
    if namespace == "prim":
        return ("default",) if name in _PRIM else None
    return builtin_schemas.overloads_of(f"{namespace}::{name}") or None


def answer_of(namespace: str, name: str, overload: str) -> Callable[..., Any]:
    """What answers an overload, called with its schema's arguments; raises NotImplementedError where flambeau has nothing."""
    if namespace == "prim":
        return _PRIM[name]
    schema = builtin_schemas.schema_of(f"{namespace}::{name}", overload)
    if namespace == "aten" or unlisted(schema.name) is not None:
        outs = any(argument.is_out for argument in schema.arguments)
        if name.endswith("_copy") and not outs and Tag["view_copy"] in builtin_schemas.tags_of(schema.name, overload):
            return _copied(schema, answer_of(namespace, name.removesuffix("_copy"), overload))
        for target in targets(schema, name, overload):
            made = _adapted(schema, name, overload, target)
            if made is not None:
                return made
        made = _delivered(schema, name) if outs else _of_in_place(schema, name)
        if made is not None:
            return made
    return _missing(schema)


def _delivered(schema: FunctionSchema, name: str) -> Callable[..., Any] | None:
    """What answers an overload with `out` where another of the operator's gives the same result as a fresh one."""
    fresh = _answer_with(schema.name, [a.name for a in schema.arguments if not a.is_out])
    if fresh is None:
        return None
    outs = [a.name for a in schema.arguments if a.is_out]

    def write(*args: Any, **kwargs: Any) -> Any:
        targets = [kwargs.pop(n) for n in outs]
        result = fresh(*args, **kwargs)
        if len(outs) == 1 and not isinstance(result, tuple):
            return out_argument.deliver(targets[0], result, record_of(name))
        return out_argument.deliver(tuple(targets), tuple(result), record_of(name))

    return write


def _of_in_place(schema: FunctionSchema, name: str) -> Callable[..., Any] | None:
    """What answers the functional form of an operator that flambeau has in place only: it writes to a copy."""
    written = _answer_with(schema.name + "_", [a.name for a in schema.arguments])
    return written and (lambda self, *args, **kwargs: written(self.clone(), *args, **kwargs))


def _answer_with(qualified_name: str, arguments: list[str]) -> Callable[..., Any] | None:
    """What answers the overload that has exactly these arguments; None if there is none, or nothing answers it."""
    namespace, _, name = qualified_name.partition("::")
    for overload in builtin_schemas.overloads_of(qualified_name):
        if [a.name for a in builtin_schemas.schema_of(qualified_name, overload).arguments] == arguments:
            found = answer_of(namespace, name, overload)
            return None if getattr(found, "missing", False) else found
    return None


def _copied(schema: FunctionSchema, view: Callable[..., Any]) -> Callable[..., Any]:
    """What answers `view_copy`: a copy of what the view shows, or of each of several."""

    def copy(*args: Any, **kwargs: Any) -> Any:
        shown = view(*args, **kwargs)
        if isinstance(shown, list):
            return [x.clone(memory_format=contiguous_format) for x in shown]
        return shown.clone(memory_format=contiguous_format) if shown.layout is strided else shown.clone()

    copy.__name__ = copy.__qualname__ = schema.name.rpartition("::")[2]
    return copy


def targets(schema: FunctionSchema, name: str, overload: str) -> list[Callable[..., Any]]:
    """What may answer an operator, best first."""
    from flambeau.dispatcher.aten import IMPLEMENTATIONS

    declared = unlisted(schema.name)
    if declared is not None:
        target = declared.in_place if schema.arguments and schema.arguments[0].is_write else declared.public
        return [] if target is None else [target]
    found = [IMPLEMENTATIONS.get(f"{name}.{overload}"), IMPLEMENTATIONS.get(name)]
    if not any(argument.is_out for argument in schema.arguments):
        found.append(IMPLEMENTATIONS.get(name))
    if name.endswith("_") and not name.endswith("__"):
        found.append(getattr(Tensor, name, None))
        found.append(getattr(getattr(OPERATORS.get(name[:-1]), "public", None), "inplace", None))
    found += [NAMESPACE.get(name), FOREACH.get(name)]
    for prefix in PREFIXES:
        short = name.removeprefix(prefix)
        if short in OPERATORS and (short != name or not prefix):
            found.append(getattr(OPERATORS[short], "public", None))
    found.append(getattr(Tensor, name, None))
    return [target for target in dict.fromkeys(found) if callable(target)]


# ---------------------------------------------------------------- fitting a schema to a signature

_SOURCE = '''
def {name}({parameters}):
    """{schema}"""
{refusals}    {result}
'''
# What a factory is told and this package has but one of.
_IGNORED = ("layout", "pin_memory", "non_blocking")


def _adapted(schema: FunctionSchema, name: str, overload: str, target: Callable[..., Any]) -> Callable[..., Any] | None:
    """A function with the schema's arguments that calls the target; None if the target doesn't take them."""
    return caller_of(schema, name, overload, target, target)


def caller_of(
    schema: FunctionSchema, name: str, overload: str, target: Callable[..., Any], called: Callable[..., Any]
) -> Callable[..., Any] | None:
    """A function with the schema's arguments that calls `called` with those that the target takes; None if it lacks one."""
    passed = _passed(schema, target)
    if passed is None:
        return None
    call, refused = passed
    scope: dict[str, Any] = {"answer_": called, "unsupported_": _unsupported}
    parameters, starred = [], False
    for i, argument in enumerate(schema.arguments):
        if argument.kwarg_only and not starred:
            starred = True
            parameters.append("*")
        own = _python_name(argument.name)
        if argument.has_default_value():
            scope[f"default{i}_"] = _default_of(argument)
            own += f"=default{i}_"
        parameters.append(own)
    refusals = "".join(
        f"    if {_python_name(a.name)} is not default{schema.arguments.index(a)}_:\n"
        f"        unsupported_({schema.name!r}, {a.name!r})\n"
        for a in refused
    )
    result = f"answer_({', '.join(call)})"
    if called is not target:
        result = f"return {result}"
    elif not schema.returns:
        result = f"{result}\n    return None"
    else:
        result = f"return {_returned(schema, result)}"
    own_name = f"{name}_{overload}"
    compile_source(
        f"<flambeau aten {name}.{overload}>",
        _SOURCE.format(
            name=own_name,
            parameters=", ".join(parameters),
            schema=str(schema).replace("\\", "\\\\"),
            refusals=refusals,
            result=result,
        ),
        scope,
    )
    made: Callable[..., Any] = scope[own_name]
    return made


def _returned(schema: FunctionSchema, call: str) -> str:
    """The source of what an operator returns, given that of the call that answers it."""
    if len(schema.returns) > 1:
        return f"tuple({call})"
    return f"list({call})" if schema.returns and isinstance(schema.returns[0].type, ListType) else call


def direct_call(
    schema: FunctionSchema, texts: Mapping[str, str], defaults: Collection[str]
) -> tuple[Callable[..., Any], str] | None:
    """What answers an operator of PyTorch's, and the source of its call with arguments that are written as `texts` says by
    their names, where "{}" stands for the function; None where only the function of `answer_of` will do.

    defaults: the arguments that are given their defaults, which are left out where the function has the same.
    """
    namespace, _, name = schema.name.partition("::")
    known = namespace == "aten" or unlisted(schema.name) is not None
    if not known or name.endswith("_copy") or any(a.is_out for a in schema.arguments):
        return None
    for target in targets(schema, name, schema.overload_name or "default"):
        passed = _passed(schema, target, texts, defaults)
        if passed is not None:
            call, refused = passed
            if any(a.name not in defaults for a in refused):
                return None
            return target, _returned(schema, f"{{}}({', '.join(call)})")
    return None


def _default_of(argument: Argument) -> Any:
    """A default as Python has it; schemas write the one dtype and the one memory format that are defaults by their numbers."""
    if isinstance(argument.default_value, int):
        for kind, value in (("ScalarType", int64), ("MemoryFormat", contiguous_format)):
            if kind in str(argument.real_type):
                return value
    return argument.default_value


def _python_name(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def _passed(
    schema: FunctionSchema, target: Callable[..., Any], texts: Mapping[str, str] | None = None, defaults: Collection[str] = ()
) -> tuple[list[str], list[Argument]] | None:
    """How the target is given the schema's arguments, as source, and which it can't be told; None if it lacks one it must be.

    texts: how each argument is written, if not by its name. defaults: which may be left out where the target has the same.
    """
    try:
        signature = plain_signature(target)
    except (TypeError, ValueError):
        return None
    parameters = {n: p for n, p in signature.parameters.items() if n != "surplus"}
    positions = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    varied = next((n for n, p in parameters.items() if p.kind is p.VAR_POSITIONAL), None)
    outs = [a for a in schema.arguments if a.is_out]
    taken: dict[str, str] = {}
    refused: list[Argument] = []
    needless: list[str] = []
    named = {a.name for a in schema.arguments}
    for i, argument in enumerate(schema.arguments):
        if argument in outs:
            continue
        own = _python_name(argument.name) if texts is None else texts[argument.name]
        if str(argument.type).removeprefix("Optional[").startswith("List[int]"):
            own = f"(tuple({own}) if {own}.__class__ is list else {own})"  # what plans are kept by must be hashable
        into = _parameter_for(argument, i, positions, parameters, named, taken)
        if into is not None:
            taken[into] = own
            if argument.name in defaults and _is_plain(_default_of(argument), parameters[into].default):
                needless.append(into)
        elif varied is not None and isinstance(argument.type, ListType):
            taken[varied] = "*" + own
        elif argument.name in _IGNORED:
            continue
        elif argument.has_default_value():
            refused.append(argument)
        else:
            return None
    if outs:
        if "out" not in parameters:
            return None
        taken["out"] = outs[0].name if len(outs) == 1 else f"({', '.join(a.name for a in outs)})"
    for n, p in parameters.items():
        if n not in taken and p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            return None
    if varied not in taken:  # which would take the place of what is left out
        for into in needless:
            del taken[into]
    call: list[str] = []
    by_position = True
    for n, p in parameters.items():
        if n not in taken:
            by_position = False
        elif p.kind is p.VAR_POSITIONAL or p.kind is p.POSITIONAL_ONLY or (by_position and p.kind is not p.KEYWORD_ONLY):
            call.append(taken[n])
        else:
            call.append(f"{n}={taken[n]}")
    return call, refused


def _is_plain(default: Any, other: Any) -> bool:
    """Whether two defaults are the same None, flag, number or text."""
    simple = default is None or isinstance(default, (int, float, str))
    return simple and default.__class__ is other.__class__ and bool(default == other)


def _parameter_for(
    argument: Argument,
    at: int,
    positions: Sequence[str],
    parameters: dict[str, inspect.Parameter],
    named: set[str],
    taken: dict[str, str],
) -> str | None:
    """The parameter that takes an argument: of the same name, else in the same place."""
    if argument.name in parameters and argument.name not in taken:
        return argument.name
    if argument.kwarg_only or at >= len(positions):
        return None
    into = positions[at]
    return None if into in taken or into in named else into


def _unsupported(name: str, argument: str) -> None:
    raise NotImplementedError(f"{name}: the argument '{argument}' is not supported in flambeau; leave it out")


def _missing(schema: FunctionSchema) -> Callable[..., Any]:
    def missing(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{schema.name} is not implemented in flambeau; call the public function of torch or torch.nn.functional that "
            "is made of it"
        )

    missing.__name__ = missing.__qualname__ = schema.name.rpartition("::")[2]
    missing.__doc__ = "Not implemented."
    missing.missing = True
    return missing
