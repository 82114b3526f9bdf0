"""Operators, conditions and texts: methods that classes written in Python have for them are followed, C code's are as they are.

Python's own rules of which operand is asked first are stated here once. Stands on items.py.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any

from flambeau.capture.builtins import CONTAINERS
from flambeau.capture.items import Items
from flambeau.capture.kinds import ABSENT, C_FUNCTIONS, IMMUTABLE, in_class, is_a
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Length", "Operators"]

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "** or pow()", "matmul": "@",
    "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_SEQUENCES = (list, tuple, str, bytes)


def _in_python(value: Any, name: str) -> bool:
    """Whether a value's class has a method that is written in Python."""
    cls = type(value)
    return cls not in IMMUTABLE and cls not in CONTAINERS and type(in_class(cls, name)) is FunctionType


class _Answer:
    """A truth value as a class's method gave it, which Python judges itself."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __bool__(self) -> bool:
        return self.given


class Length:
    """A length as a class's method gave it."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __len__(self) -> int:
        return self.given


class Operators(Items):
    """The hooks for operators, conditions and texts."""

    # ---- of two operands
    def binary(self, name: str, a: Any, b: Any) -> Any:
        """`a + b` and the like; name: that of the function in `operator`."""
        return self._operated(name.rstrip("_"), name, a, b)

    def _operated(self, word: str, name: str, a: Any, b: Any) -> Any:
        """What an operator gives; name: that of the function in `operator`, beginning with "i" where it is augmented."""
        if self.reason is None and not is_a(a, Tensor) and not is_a(b, Tensor):
            mirrored = f"__{_MIRRORED.get(word) or 'r' + word}__"
            if _in_python(a, f"__{word}__") or _in_python(b, mirrored) or (word == "ne" and (_in_python(a, "__eq__"))):
                sign = _SIGNS[word] if name.rstrip("_") == word else _SIGNS[word].split()[0] + "="
                return self._dispatched(word, sign, a, b, mirrored)
        if self.reason is None:
            look = self.compared if word in _MIRRORED else self.touch
            look(a)
            look(b)
            if word == "mod" and type(a) is str:
                self._shows(b)
        return getattr(operator, name)(a, b)

    def _dispatched(self, word: str, sign: str, a: Any, b: Any, mirrored: str) -> Any:
        """An operator of which an operand's class has a method in Python."""
        compares = word in _MIRRORED
        asked = [(a, f"__{word}__", b)]
        other = in_class(type(b), mirrored)
        if compares or type(b) is not type(a):
            derived = issubclass(type(b), type(a)) and type(b) is not type(a)
            first = derived and (compares or other is not in_class(type(a), mirrored))
            first = first or (word in ("add", "mul") and type(a) in _SEQUENCES)  # whose own rule comes last
            asked.insert(0 if first else 1, (b, mirrored, a))
        for each in (a, b):
            self.touch(each)
        for holder, method, operand in asked:
            given = self._asked(holder, method, operand)
            if given is not NotImplemented:
                return given
        if word in ("eq", "ne"):
            return self.same(a, b) is (word == "eq")
        names = type(a).__name__, type(b).__name__
        if compares:
            raise TypeError("'{}' not supported between instances of '{}' and '{}'".format(sign, *names))
        raise TypeError("unsupported operand type(s) for {}: '{}' and '{}'".format(sign, *names))

    def _asked(self, holder: Any, method: str, operand: Any) -> Any:
        found = in_class(type(holder), method)
        if type(found) is FunctionType:
            return self.call(self.reach(found), holder, operand)
        if found is object.__ne__ and _in_python(holder, "__eq__"):  # the opposite of that
            given = self._asked(holder, "__eq__", operand)
            return given if given is NotImplemented else not self.truth(given)
        if found is ABSENT or found is object.__eq__ or found is object.__ne__:
            return NotImplemented  # in the end they are compared by identity
        if not is_a(found, C_FUNCTIONS):
            self.refuse(f"an operator of {type(holder).__qualname__} is no function")
        return found.__get__(holder, type(holder))(operand)

    def augmented(self, name: str, a: Any, b: Any) -> Any:
        """What `a += b` makes of a."""
        if self.reason is None and type(a) not in IMMUTABLE and not is_a(a, Tensor):
            found = in_class(type(a), f"__{name}__")
            if type(found) is FunctionType:
                self._pinned_class(a)
                given = self.call(self.reach(found), a, b)
                if given is not NotImplemented:
                    return given
            word = name[1:]
            if type(found) is FunctionType:  # which was asked, and isn't once more
                return self.binary(word + "_" if word in ("and", "or") else word, a, b)
            if found is ABSENT:
                return self._operated(word, name, a, b)
            if self.of_environment(a) and type(a) not in (tuple, frozenset):
                self.refuse(f"a {type(a).__name__} of the surroundings is changed in place")
            self.touch(a)
            b = self.spread(b)
        elif self.reason is None and not is_a(a, Tensor):
            return self._operated(name[1:], name, a, b)
        else:
            self.touch(b)
        return getattr(operator, name)(a, b)

    # ---- of one
    def unary(self, name: str, a: Any) -> Any:
        if self.reason is None and _in_python(a, f"__{name}__") and not is_a(a, Tensor):
            self._pinned_class(a)
            return self.call(self.reach(in_class(type(a), f"__{name}__")), a)
        return getattr(operator, name)(self.touch(a))

    def truth(self, a: Any) -> Any:
        """What Python takes for a's truth in its place."""
        if self.reason is None and not is_a(a, Tensor):
            if _in_python(a, "__bool__"):
                self._pinned_class(a)
                return _Answer(self.call(self.reach(in_class(type(a), "__bool__")), a))
            if _in_python(a, "__len__") and in_class(type(a), "__bool__") is ABSENT:
                self._pinned_class(a)
                return Length(self.call(self.reach(in_class(type(a), "__len__")), a))
        return self.touch(a)

    def both(self, a: Any, later: Callable[[], Any]) -> Any:
        """`a and b`"""
        return later() if self.truth(a) else a

    def either(self, a: Any, later: Callable[[], Any]) -> Any:
        """`a or b`"""
        return a if self.truth(a) else later()

    def spread(self, a: Any) -> Any:
        """What Python takes apart: a starred argument, the parts of a tuple that are given to several names."""
        return self.each(a) if self.reason is None and _in_python(a, "__iter__") and not is_a(a, Tensor) else self.touch(a)

    # ---- texts
    def text(self, value: Any, conversion: str, form: str) -> str:
        """A value in an f-string."""
        if conversion:
            shown = self.shown(value, "__str__" if conversion == "s" else "__repr__")
            return format(shown.encode("ascii", "backslashreplace").decode() if conversion == "a" else shown, form)
        return self.formatted(value, form)

    def formatted(self, value: Any, form: str = "") -> str:
        """format(value, form)"""
        if self.reason is None and not is_a(value, Tensor):
            if _in_python(value, "__format__"):
                self._pinned_class(value)
                return self.call(self.reach(in_class(type(value), "__format__")), value, form)
            if type(value) not in IMMUTABLE and in_class(type(value), "__format__") is object.__format__ and form == "":
                return self.shown(value, "__str__")
            self._shows(value)
        return format(self.touch(value), form)

    def shown(self, value: Any, method: str) -> str:
        """str(value) or repr(value); method: "__str__" or "__repr__"."""
        if self.reason is None and not is_a(value, Tensor) and type(value) not in IMMUTABLE:
            found = in_class(type(value), method)
            if found is object.__str__:
                found = in_class(type(value), "__repr__")
            if type(found) is FunctionType:
                self._pinned_class(value)
                made = self.call(self.reach(found), value)
                if not is_a(made, str):
                    raise TypeError(f"{method} returned non-string (type {type(made).__name__})")
                return made
            self._shows(value)
        self.touch(value)
        return str(value) if method == "__str__" else repr(value)

    def _shows(self, value: Any) -> None:
        """C code writes a value: pin what guards of it don't know, names and addresses."""
        if self.reason is not None or type(value) in IMMUTABLE or is_a(value, Tensor):
            return
        if type(value) in CONTAINERS:
            for each in [*value, *value.values()] if is_a(value, dict) else value:
                if each is not value:
                    self._shows(each)
        elif is_a(value, BaseException) and not self.of_environment(value):
            self._shows(value.args)
        elif is_a(value, enum.Enum) or _in_python(value, "__repr__") or _in_python(value, "__str__"):
            pass  # by functions, which the net sees
        elif is_a(value, type) or (self.is_constant(value) and is_a(value, (FunctionType, MethodType, ModuleType, *C_FUNCTIONS))):
            shown = repr(value)
            self.guards.asked(lambda: repr(value) == shown, "the name of a class or function")
        elif self.is_constant(value) and in_class(type(value), "__repr__") is object.__repr__:
            shown = object.__repr__(value)
            self.guards.hold(value)
            self.guards.asked(lambda: object.__repr__(value) == shown, "the name of an object's class")
        else:
            self.refuse(f"the text of a {type(value).__qualname__} is asked for, which may have an address in it")
