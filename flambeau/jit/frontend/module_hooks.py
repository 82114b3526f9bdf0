"""Hooks of modules in programs: what is called in front of a module's forward and behind it.

A hook before takes the module and the inputs as a tuple, and gives none, other inputs or the only one; a hook behind takes
the output as
well, and gives it or another. Stands on modules and module_types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flambeau.dispatcher.schema_types import TupleType
from flambeau.jit.frontend.callables import OverloadedFunction
from flambeau.jit.frontend.matching import Kwargs
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.source import SourceRange
from flambeau.jit.ir.types import is_none
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter
    from flambeau.jit.frontend.modules import ModuleValue

__all__ = ["call_with_hooks"]


def call_with_hooks(
    module: ModuleValue, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int
) -> SugaredValue:
    """What calling a module with hooks gives; its type has the compiled hooks by now."""
    kind = module.concrete.script_type
    before, behind = kind.pre_hooks, kind.hooks

    def call(hook: Function, values: list[Value]) -> Value:
        return OverloadedFunction([hook]).call(where, e, [module.value, *values], [], 1).as_value(where, e)

    inputs = e.tuple_of(list(args))
    for hook in before:
        found = call(hook, [inputs])
        if not is_none(found.type()):
            inputs = found if isinstance(found.type(), TupleType) else e.tuple_of([found])
    parts = [part.as_value(where, e) for part in SimpleValue(inputs).as_tuple(where, e)]
    output = module.attr(where, e, "forward").call(where, e, parts, kwargs, binders).as_value(where, e)
    for hook in behind:
        found = call(hook, [inputs, output])
        if not is_none(found.type()):
            output = found
    return SimpleValue(output)
