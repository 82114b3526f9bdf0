"""Whether calls written for one schema of an operator are right for another: what `FunctionSchema` answers about versions of it.

Stands on schema_types; used by schema.
"""

from __future__ import annotations

from typing import Any

from flambeau.dispatcher.schema_types import DictType, ListType, OptionalType, TupleType, Type, passed

__all__ = ["backward_compatible", "forward_compatible"]


def _outs_from(schema: Any) -> int:
    """The place of the first argument that is an output; they come last."""
    return next((at for at, argument in enumerate(schema.arguments) if argument.is_out), len(schema.arguments))


def _takes(new: Any, old: Any) -> bool:
    """Whether an argument takes what the older one took, and may be left out where that might."""
    if new.name != old.name or new.N != old.N or new.alias_info != old.alias_info:
        return False
    if new.kwarg_only and not old.kwarg_only:
        return False
    if not old.type.isSubtypeOf(new.type):
        return False
    return not old.has_default_value() or (new.has_default_value() and new.default_value == old.default_value)


def _same_frame(new: Any, old: Any) -> bool:
    """Whether two schemas have the same name and results, but for narrower types of these."""
    if (new.name, new.overload_name, new.is_vararg, new.is_varret) != (old.name, old.overload_name, old.is_vararg, old.is_varret):
        return False
    if len(new.returns) != len(old.returns):
        return False
    return all(
        one.name == other.name and one.alias_info == other.alias_info and one.type.isSubtypeOf(other.type)
        for one, other in zip(new.returns, old.returns)
    )


def backward_compatible(new: Any, old: Any) -> bool:
    """Whether programs that call the operator by the old schema may call it by the new one."""
    if not _same_frame(new, old) or len(new.arguments) < len(old.arguments):
        return False
    before, after = _outs_from(old), _outs_from(new)
    outs_before, outs_after = old.arguments[before:], new.arguments[after:]
    if after < before or len(outs_after) < len(outs_before):
        return False
    if not all(_takes(one, other) for one, other in zip(new.arguments[:after], old.arguments[:before])):
        return False
    if not all(argument.has_default_value() for argument in new.arguments[before:after]):
        return False
    return all(_takes(one, other) for one, other in zip(outs_after, outs_before))


def _is_container(kind: Type) -> bool:
    return isinstance(kind.element if isinstance(kind, OptionalType) else kind, (ListType, DictType, TupleType))


def forward_compatible(new: Any, old: Any) -> tuple[bool, str]:
    """Whether programs that call the operator by the new schema may call it by the old one, and why not."""
    if not _same_frame(new, old):
        return False, "Function name, overload name, or the types of returns are not forward compatible with the older schema"
    before, after = _outs_from(old), _outs_from(new)
    if len(old.arguments) - before != len(new.arguments) - after:
        return False, "Function schema should have the same number of out arguments"
    for one, other in zip(new.arguments[:after], old.arguments[:before]):
        same = one.has_default_value() == other.has_default_value() and one.default_value == other.default_value
        if not _takes(other, one) or not same:
            return False, f"'{one.name}' is not forward compatible with the older version of the schema"
    for argument in new.arguments[before:after]:
        if not argument.has_default_value():
            return False, (
                f"Function schema is not forward compatible since the new argument '{argument.name}' of type "
                f"{passed(argument.type)} did not provide a default value."
            )
        if _is_container(argument.type):
            return False, (
                f"Function schema is not forward compatible since the new argument '{argument.name}' of type "
                f"{passed(argument.type)} has a container type as its default value."
            )
    for one, other in zip(new.arguments[after:], old.arguments[before:]):
        if not _takes(other, one):
            return False, f"Out argument '{one.name}' is not FC with the older version of the schema"
    return True, ""
