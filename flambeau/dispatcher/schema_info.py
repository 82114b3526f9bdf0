"""What a schema says of a call with values known: which arguments are written to, and which share memory.

`SchemaInfo(schema)` is told values by the names of arguments; two arguments on one memory count as one. Stands on schema; used
by torch._C, and by SchemaCheckMode.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from flambeau.base.naming import public_module
from flambeau.dispatcher.calling import flat_tensors
from flambeau.dispatcher.schema import FunctionSchema

__all__ = ["SchemaArgType", "SchemaArgument", "SchemaInfo", "is_alias_of", "overlaps"]


def is_alias_of(a: Any, b: Any) -> bool:
    """Whether a tensor of the one shares memory with a tensor of the other; lists count by their items."""
    memory = {x._storage for x in flat_tensors([a])}
    return any(x._storage in memory for x in flat_tensors([b]))


#: Containers overlap where their tensors do.
overlaps = is_alias_of


class SchemaArgType(enum.Enum):
    """Whether an argument or a result is meant."""

    input, output = range(2)


class SchemaArgument(NamedTuple):
    """An argument or a result by its place."""

    type: SchemaArgType
    index: int


for _kind, _name in ((SchemaArgType, "_SchemaArgType"), (SchemaArgument, "_SchemaArgument")):
    _kind.__module__, _kind.__name__, _kind.__qualname__ = public_module("_C"), _name, _name

#: Arguments that are written to where another one is true, which the schema doesn't say.
_TRAINED = {
    "aten::batch_norm": "training",
    "aten::native_batch_norm": "training",
    "aten::instance_norm": "use_input_stats",
    "aten::rrelu_with_noise": "training",
}
_BUFFERS = ("running_mean", "running_var", "noise")


class SchemaInfo:
    """A schema, and what is known of the values of its arguments."""

    __module__ = public_module("_C")

    def __init__(self, schema: FunctionSchema) -> None:
        self.schema = schema
        self.values: dict[str, Any] = {}

    def add_argument_value(self, name: str, value: Any) -> None:
        """Tell the value of an argument. "input" is another name of "self". RuntimeError for a name that there isn't."""
        self.values[self.schema.arguments[self._place(name)].name] = value

    def add_argument_values(self, values: dict[str, Any]) -> None:
        """Tell several; names that there are none of don't matter."""
        for name, value in values.items():
            if self.has_argument(name):
                self.add_argument_value(name, value)

    def _names(self) -> list[str]:
        return [argument.name for argument in self.schema.arguments]

    def has_argument(self, name: str) -> bool:
        """Whether there is an argument of that name."""
        return name in self._names() or (name == "input" and "self" in self._names())

    def _place(self, name: str) -> int:
        names = self._names()
        if name == "input" and name not in names:
            name = "self"
        if name not in names:
            raise RuntimeError(f"Schema has no argument named {name}")
        return names.index(name)

    def _together(self, place: int) -> list[int]:
        """The places of the arguments that have the same memory as this one, itself among them."""
        own = self.values.get(self.schema.arguments[place].name)
        others = enumerate(self.schema.arguments)
        return [at for at, other in others if at == place or (own is not None and is_alias_of(own, self.values.get(other.name)))]

    def _writes(self, place: int) -> bool:
        argument = self.schema.arguments[place]
        switch = _TRAINED.get(self.schema.name)
        return argument.is_write or (argument.name in _BUFFERS and switch is not None and bool(self.values.get(switch)))

    def is_mutable(self, argument: SchemaArgument | str | None = None) -> bool:
        """Whether the operator writes to an argument or a result, given by its place or its name; without one, to any."""
        if argument is None:
            return any(self.is_mutable(SchemaArgument(SchemaArgType.input, at)) for at in range(len(self.schema.arguments)))
        if isinstance(argument, str):
            argument = SchemaArgument(SchemaArgType.input, self._place(argument))
        if argument.type is SchemaArgType.output:
            return self.schema.returns[argument.index].is_write
        return any(self._writes(place) for place in self._together(argument.index))

    def _marks(self, argument: SchemaArgument, after: bool = True) -> set[str]:
        """The sets of memory that an argument's, or a result's, is said to be of."""
        if argument.type is SchemaArgType.output:
            found = [self.schema.returns[argument.index]]
        else:
            found = [self.schema.arguments[place] for place in self._together(argument.index)]
        return {
            name
            for x in found
            if x.alias_info is not None
            for name in x.alias_info.before_set | (x.alias_info.after_set if after else set())
        }

    def may_alias(self, one: SchemaArgument, other: SchemaArgument) -> bool:
        """Whether two arguments or results may share memory."""
        if one.type is other.type is SchemaArgType.input and other.index in self._together(one.index):
            return True
        shared = self._marks(one) & self._marks(other)
        return bool(shared)

    def may_contain_alias(self, one: SchemaArgument, other: SchemaArgument, bidirectional: bool = True) -> bool:
        """may_alias, of what lists contain."""
        return self.may_alias(one, other)


SchemaInfo.__name__ = SchemaInfo.__qualname__ = "_SchemaInfo"
