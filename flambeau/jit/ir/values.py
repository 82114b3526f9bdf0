"""Values of a graph, with the interface of torch._C.Value, and where they are read.

Values are named as PyTorch names them: a number that counts all values ever made, or the name of a variable, of which the last to
take it has it plain and older ones are numbered. Stands on the types; nodes, blocks and graphs stand on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.base.naming import PACKAGE
from flambeau.dispatcher.schema_types import TensorType, Type

if TYPE_CHECKING:
    from flambeau.jit.ir.nodes import Node

__all__ = ["Use", "Value", "meaningful"]

_TENSOR = TensorType()


def meaningful(name: str) -> bool:
    """Whether a name says something: not empty, not one underscore, and not an underscore with a number."""
    return bool(name) and name != "_" and not (name[0] == "_" and name[1:].isdigit())


class Use:
    """A place where a value is read: the node, and which of its inputs."""

    __slots__ = ("offset", "user")

    def __init__(self, user: Node, offset: int) -> None:
        self.user, self.offset = user, offset


class Value:
    """What a node gives, or a block takes."""

    __module__ = PACKAGE
    __slots__ = ("_name", "_node", "_offset", "_type", "_unique", "_users")

    def __init__(self, node: Node, offset: int) -> None:
        self._node, self._offset = node, offset
        self._unique = node._graph._next()
        self._name = ""
        self._type: Type = _TENSOR
        self._users: list[Node] = []

    def node(self) -> Node:
        """The node that gives it."""
        return self._node

    def type(self) -> Type:
        """Its type."""
        return self._type

    def setType(self, kind: Type) -> Value:
        """Give it a type; returns the value."""
        self._type = kind
        return self

    def unique(self) -> int:
        """Its number in the graph."""
        return self._unique

    def offset(self) -> int:
        """Which of the outputs of its node it is."""
        return self._offset

    def debugName(self) -> str:
        """The name it is printed by, without the percent sign."""
        return self._name or str(self._unique)

    def hasDebugName(self) -> bool:
        """Whether it has a name that is not its number."""
        return bool(self._name)

    def setDebugName(self, name: str) -> Value:
        """Name it; whoever has the name is renamed to it with a number. Raises RuntimeError for a name that is a number."""
        if name.isdigit():
            raise RuntimeError(f"name is not a valid identifier: '{name}'")
        names = self._node._graph._names
        if self._name:
            names.pop(self._name, None)
        if not name:
            self._name = ""
            return self
        holder = names.get(name)
        if holder is not None and holder is not self:
            base, _, digits = name.rpartition(".")
            suffix = 1
            if base and digits.isdigit():
                suffix = int(digits)
            else:
                base = name
            suffixes = self._node._graph._suffixes
            suffix = max(suffix, suffixes.get(base, 0) + 1)
            while f"{base}.{suffix}" in names:
                suffix += 1
            suffixes[base] = suffix + 1
            holder.setDebugName(f"{base}.{suffix}")
        names[name] = self
        self._name = name
        return self

    def copyMetadata(self, other: Value) -> Value:
        """Take the type and the name of another value."""
        self._type = other._type
        if other._name:
            self.setDebugName(other._name)
        return self

    def uses(self) -> list[Use]:
        """Where it is read, once for each place."""
        found = []
        for user in dict.fromkeys(self._users):
            found += [Use(user, i) for i, value in enumerate(user._inputs) if value is self]
        return found

    def hasUses(self) -> bool:
        """Whether it is read anywhere."""
        return bool(self._users)

    def replaceAllUsesWith(self, other: Value) -> None:
        """Read another value wherever this one is read."""
        for user in dict.fromkeys(self._users):
            user._inputs = [other if value is self else value for value in user._inputs]
        other._users += self._users
        self._users = []

    def requires_grad(self) -> bool:
        """Whether its type says that it may require grad."""
        return isinstance(self._type, TensorType) and self._type.requires_grad()

    requiresGrad = requires_grad

    def isCompleteTensor(self) -> bool:
        """Whether its type says everything of it: dtype, device, sizes, strides, whether it requires grad."""
        kind = self._type
        known = isinstance(kind, TensorType) and None not in (kind.dtype(), kind.device(), kind.sizes(), kind.strides())
        return known and getattr(kind, "_requires_grad", None) is not None

    def inferTypeFrom(self, value: Any) -> None:
        """Give it the type of a tensor, with all that is known of it."""
        from flambeau.jit.ir.shaped import shaped

        self._type = shaped(value)

    def setTypeAs(self, other: Value) -> Value:
        """Give it the type of another; returns the value."""
        return self.setType(other._type)

    def toIValue(self) -> Any:
        """The value of a constant; None for anything else."""
        return self._node.ivalue() if self._node.kind() == "prim::Constant" else None

    def __repr__(self) -> str:
        return f"{self.debugName()} defined in ({str(self._node).rstrip()})"
