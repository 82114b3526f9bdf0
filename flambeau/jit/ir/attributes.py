"""Attributes of a graph's nodes, by name and kind, with the accessors of torch._C.Node; a node is an `Attributed`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    from flambeau.jit.ir.graph import Graph

__all__ = ["Attributed"]


class Attributed:
    """What has attributes, each a kind and a value: i, f, s, c, t, is, fs, ss, ival, g, ty."""

    __slots__ = ("attributes",)

    def __init__(self) -> None:
        self.attributes: dict[str, tuple[str, Any]] = {}

    def ivalue(self, name: str = "value") -> Any:
        """The value of an attribute; None if there is none of the name."""
        found = self.attributes.get(name)
        return None if found is None else found[1]

    def set(self, name: str, kind: str, value: Any) -> Self:
        """Give it an attribute of a kind: i, f, s, c, t, is, fs, ss, ival, g, ty."""
        self.attributes[name] = (kind, value)
        return self

    def attributeNames(self) -> list[str]:
        """The names of its attributes."""
        return list(self.attributes)

    def hasAttributes(self) -> bool:
        """Whether it has any."""
        return bool(self.attributes)

    def hasAttribute(self, name: str) -> bool:
        """Whether it has one of the name."""
        return name in self.attributes

    def kindOf(self, name: str) -> str:
        """The kind of an attribute. RuntimeError if there is none of the name."""
        return self._attribute(name)[0]

    def removeAttribute(self, name: str) -> Self:
        """Take an attribute away; returns the node."""
        del self.attributes[name]
        return self

    def _attribute(self, name: str, *kinds: str) -> tuple[str, Any]:
        found = self.attributes.get(name)
        if found is None:
            raise RuntimeError(f"required keyword attribute '{name}' is undefined")
        if kinds and found[0] not in kinds:
            raise RuntimeError(f"required keyword attribute '{name}' has the wrong type")
        return found

    def i(self, name: str) -> int:
        """An integer attribute."""
        return int(self._attribute(name, "i")[1])

    def f(self, name: str) -> float:
        """A float attribute."""
        return float(self._attribute(name, "f")[1])

    def c(self, name: str) -> complex:
        """A complex attribute."""
        return complex(self._attribute(name, "c")[1])

    def s(self, name: str) -> str:
        """A text attribute."""
        return str(self._attribute(name, "s")[1])

    def t(self, name: str) -> Any:
        """A tensor attribute."""
        return self._attribute(name, "t")[1]

    def ival(self, name: str) -> Any:
        """An attribute that is any value."""
        return self._attribute(name, "ival")[1]

    def g(self, name: str) -> Graph:
        """An attribute that is a graph."""
        graph: Graph = self._attribute(name, "g")[1]
        return graph

    def i_(self, name: str, value: int) -> Self:
        """Set an integer attribute."""
        return self.set(name, "i", value)

    def f_(self, name: str, value: float) -> Self:
        """Set a float attribute."""
        return self.set(name, "f", value)

    def s_(self, name: str, value: str) -> Self:
        """Set a text attribute."""
        return self.set(name, "s", value)

    def t_(self, name: str, value: Any) -> Self:
        """Set a tensor attribute."""
        return self.set(name, "t", value)

    def is_(self, name: str, value: list[int]) -> Self:
        """Set an attribute that is a list of integers."""
        return self.set(name, "is", value)

    def g_(self, name: str, value: Graph) -> Self:
        """Set an attribute that is a graph."""
        return self.set(name, "g", value)
