"""The operators that a program may call: their schemas by name, in the order in which PyTorch tries them.

Those of PyTorch's own list, those that a program defined with torch.library, and those that are written as programs themselves
(`builtin_programs`). Stands on dispatcher; used by matching and by the executor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.operator.publishing import LATE
from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.record import RECORDS
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import Type
from flambeau.jit.ir.types import canonical

__all__ = ["Candidate", "candidates", "is_operator", "provide_programs"]


_providers: list[Callable[[str], tuple[Any, ...]]] = []


def provide_programs(programs_of: Callable[[str], tuple[Any, ...]]) -> None:
    """Say where the operators come from that are programs: functions by the operator's name."""
    _providers.append(programs_of)


def _programs(symbol: str) -> list[Any]:
    return [program for programs_of in _providers for program in programs_of(symbol)]


class Candidate:
    """An operator's overload as a call is matched to it: types as programs have them. `program`: its function, if it is one."""

    __slots__ = ("kinds", "program", "returns", "schema", "symbol")

    def __init__(self, schema: FunctionSchema, symbol: str, program: Any = None) -> None:
        self.schema, self.symbol, self.program = schema, symbol, program
        self.kinds: list[Type] = [canonical(argument.type) for argument in schema.arguments]
        self.returns: list[Type] = [canonical(made.type) for made in schema.returns]


# Overloads that programs can't call: their arguments are also those of another.
_HIDDEN = frozenset(("aten::view.dtype", "aten::max.unary_out", "aten::min.unary_out"))


LATE.append(lambda function: _builtin.cache_clear())


@functools.cache
def _builtin(symbol: str) -> tuple[Candidate, ...]:
    names = [name for name in builtin_schemas.overloads_of(symbol) if f"{symbol}.{name}" not in _HIDDEN]
    own = [Candidate(builtin_schemas.schema_of(symbol, overload), symbol) for overload in names]
    return (*own, *(Candidate(each.schema, symbol, each) for each in _programs(symbol)))


def candidates(symbol: str) -> tuple[Candidate, ...]:
    """The overloads of "ns::name"; none if there is no such operator."""
    records = RECORDS.get(symbol)
    if records and not builtin_schemas.overloads_of(symbol):
        return tuple(Candidate(record.schema, symbol) for record in records.values() if record.schema is not None)
    return _builtin(symbol)


def is_operator(symbol: str) -> bool:
    """Whether there is an operator of the name."""
    return bool(candidates(symbol))
