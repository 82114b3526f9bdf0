"""The types that only programs have: classes, interfaces, enumerations, unions, named tuples, functions, modules; and what holds
between types.

Stands on the types of schemas, which it adds to; used by all of jit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from flambeau.base.naming import PACKAGE
from flambeau.dispatcher.schema_types import (
    AnyType,
    BoolType,
    ComplexType,
    DeviceObjType,
    DictType,
    FloatType,
    FutureType,
    GeneratorType,
    IntType,
    ListType,
    NamedType,
    NoneType,
    NumberType,
    OptionalType,
    Refused,
    StringType,
    TensorType,
    TupleType,
    Type,
)

if TYPE_CHECKING:
    from flambeau.jit.ir.function import Function

__all__ = [
    "ANY", "BOOL", "COMPLEX", "DEVICE", "FLOAT", "GENERATOR", "INFERRED", "INT", "NONE", "NUMBER", "STRING", "TENSOR",
    "ClassType", "EnumType", "FunctionType", "InferredTensorType", "InterfaceType", "NamedTupleType", "UnionType",
    "canonical", "is_none", "is_tensor", "is_variable", "make_union", "missing_methods", "ordered", "unify",
    "unify_type_list", "unshaped",
]  # fmt: skip

TENSOR, INT, FLOAT, BOOL, COMPLEX, STRING = (
    TensorType(), IntType(), FloatType(), BoolType(), ComplexType(), StringType(),
)  # fmt: skip
NONE, ANY, NUMBER, DEVICE, GENERATOR = NoneType(), AnyType(), NumberType(), DeviceObjType(), GeneratorType()


class InferredTensorType(TensorType):
    """Tensor, of a parameter that nothing was said about."""

    def __str__(self) -> str:
        return "Tensor (inferred)"

    @property
    def annotation_str(self) -> str:
        """As Python's annotations write it."""
        return "Tensor"


INFERRED = InferredTensorType()


def is_tensor(kind: Type) -> bool:
    """Whether values of the type are tensors."""
    return isinstance(kind, TensorType)


def is_none(kind: Type) -> bool:
    """Whether it is the type of None."""
    return isinstance(kind, NoneType)


class UnionType(Type):
    """A value of one of several types."""

    __module__ = PACKAGE

    def __init__(self, members: list[Type]) -> None:
        self.members = members
        self.written = f"Union({', '.join(member.written for member in members)})"

    def containedUnionTypes(self) -> list[Type]:
        return self.members

    def containedTypes(self) -> list[Type]:
        return self.members

    def withContained(self, parts: list[Type]) -> Type:
        return make_union(parts)

    def isSubtypeOf(self, other: Type) -> bool:
        return isinstance(other, AnyType) or all(member.isSubtypeOf(other) for member in self.members)

    def __str__(self) -> str:
        return f"Union[{', '.join(map(str, self.members))}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnionType) and {repr(m) for m in self.members} == {repr(m) for m in other.members}

    def __hash__(self) -> int:
        return hash(frozenset(repr(m) for m in self.members))


def make_union(members: Iterable[Type]) -> Type:
    """The union of types: flat, without what another member has; one member alone is that type, one beside None is optional."""
    flat: list[Type] = []
    for member in members:
        if isinstance(member, OptionalType):
            flat += [*_members(member.element), NONE]
        else:
            flat += _members(member)
    kept: list[Type] = []
    for member in flat:
        if any(member.isSubtypeOf(other) for other in kept):
            continue
        kept = [other for other in kept if not other.isSubtypeOf(member)] + [member]
    numbers = [m for m in kept if isinstance(m, (IntType, FloatType, ComplexType))]
    if len(numbers) == 3:
        at = kept.index(numbers[0])
        kept = [m for m in kept if m not in numbers]
        kept.insert(at, NUMBER)
    if len(kept) == 1:
        return kept[0]
    if len(kept) == 2 and any(map(is_none, kept)):
        return OptionalType(next(member for member in kept if not is_none(member)))
    return UnionType(sorted(kept, key=_rank))


# Members of a union stand in this order.
_ORDER = (
    "AnyType EnumType TensorType TupleType ListType DictType NumberType FloatType ComplexType FutureType IntType NoneType "
    "StringType GeneratorType BoolType OptionalType DeviceObjType FunctionType ClassType InterfaceType"
).split()


def _rank(kind: Type) -> tuple[int, str]:
    name = next((each.__name__ for each in type(kind).__mro__ if each.__name__ in _ORDER), "")
    return (_ORDER.index(name) if name else len(_ORDER)), str(kind)


def ordered(kinds: list[Type]) -> list[Type]:
    """Types in the order of a union's members."""
    return sorted(kinds, key=_rank)


def _members(kind: Type) -> list[Type]:
    return kind.members if isinstance(kind, UnionType) else [kind]


class FunctionType(Type):
    """One function: every function has a type of its own."""

    __module__ = PACKAGE
    written = "Function"

    def __init__(self, function: Function) -> None:
        self.function = function

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionType) and self.function is other.function

    def __hash__(self) -> int:
        return id(self.function)


class NamedTupleType(TupleType):
    """A tuple of a class whose items have names, and may have defaults."""

    __module__ = PACKAGE

    def __init__(
        self,
        qualified_name: str,
        names: list[str],
        elements: list[Type],
        defaults: list[Any] | None = None,
        python_class: Any = None,
    ) -> None:
        super().__init__(elements)
        self.qualified_name, self.names, self.defaults, self.python_class = (qualified_name, names, defaults or [], python_class)
        self.written = f"NamedTuple({', '.join(map(self._field, range(len(names))))})"

    def _field(self, index: int) -> str:
        text = f"{self.names[index]} : {self._elements[index].written}"
        place = index - (len(self.names) - len(self.defaults))
        return f"{text} = {self.defaults[place]}" if place >= 0 else text

    def __str__(self) -> str:
        return self.qualified_name

    def name(self) -> str:
        """The name of the class."""
        return self.qualified_name

    def withContained(self, parts: list[Type]) -> Type:
        return NamedTupleType(self.qualified_name, self.names, parts, self.defaults, self.python_class)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedTupleType) and self.qualified_name == other.qualified_name and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.qualified_name)

    def isSubtypeOf(self, other: Type) -> bool:
        return self == other or (not isinstance(other, NamedTupleType) and super().isSubtypeOf(other))

    def take(self, value: Any) -> Any:
        return super().take(value)


class EnumType(Type):
    """An enumeration: its members have names, and values of one type."""

    __module__ = PACKAGE

    def __init__(self, qualified_name: str, value_type: Type, members: list[tuple[str, Any]], python_class: Any = None) -> None:
        self.qualified_name, self.value_type, self.members, self.python_class = (
            qualified_name,
            value_type,
            members,
            python_class,
        )
        self.written = f"Enum<{qualified_name}>"

    def __str__(self) -> str:
        return self.qualified_name

    def isSubtypeOf(self, other: Type) -> bool:
        return other.written == "AnyEnumType" or super().isSubtypeOf(other)


class InterfaceType(Type):
    """What a class must have to stand in a place: methods with these schemas."""

    __module__ = PACKAGE

    def __init__(self, qualified_name: str, is_module: bool = False) -> None:
        self.qualified_name, self.written = qualified_name, f"InterfaceType<{qualified_name.rpartition('.')[2]}>"
        self.is_module = is_module
        self.methods: dict[str, Any] = {}

    def __str__(self) -> str:
        return self.qualified_name

    def isSubtypeOf(self, other: Type) -> bool:
        if isinstance(other, InterfaceType) and self.is_module == other.is_module:
            return not missing_methods(self.methods, other)
        return super().isSubtypeOf(other)


class Attribute:
    """What a class says of an attribute."""

    __slots__ = ("is_buffer", "is_parameter", "name", "type")

    def __init__(self, name: str, kind: Type, is_parameter: bool = False, is_buffer: bool = False) -> None:
        self.name, self.type, self.is_parameter, self.is_buffer = name, kind, is_parameter, is_buffer


class ClassType(Type):
    """A class of a program, or the type of a module: attributes in order, methods, constants, properties, hooks."""

    __module__ = PACKAGE
    from_python: ClassVar[Callable[[Any, ClassType], Any]]  # makes an object of a program of one of Python's; `calls` sets it

    def __init__(self, qualified_name: str, is_module: bool = False) -> None:
        self.qualified_name = self.written = qualified_name
        self.is_module = is_module
        self.attributes: dict[str, Attribute] = {}
        self.extended = False  # with an attribute that one of its modules was given, and others hadn't
        self.constants: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}
        self.static_methods: dict[str, Any] = {}
        self.properties: dict[str, tuple[Any, Any]] = {}
        self.hooks: list[Any] = []
        self.pre_hooks: list[Any] = []
        self.python_class: Any = None
        self.is_exception = False

    def name(self) -> str:
        """The last part of the qualified name."""
        return self.qualified_name.rpartition(".")[2]

    def qualifiedName(self) -> str:
        """The name with that of its module in front."""
        return self.qualified_name

    def add_attribute(self, name: str, kind: Type, is_parameter: bool = False, is_buffer: bool = False) -> None:
        """One more attribute. RuntimeError if there is one of the name."""
        if name in self.attributes:
            raise RuntimeError(
                f"attempting to add attribute '{name}' to '{self.qualified_name}' but a field of the same name already exists"
            )
        self.attributes[name] = Attribute(name, kind, is_parameter, is_buffer)

    def attribute(self, name: str) -> Type | None:
        """The type of an attribute; None if there is none of the name."""
        found = self.attributes.get(name)
        return None if found is None else found.type

    def method(self, name: str) -> Any:
        """A method, compiled if that is still to be done; None if there is none of the name."""
        return self.methods.get(name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def take(self, value: Any) -> Any:
        kind = getattr(value, "script_type", None)
        if kind is self:
            return value
        if self.python_class is not None and not self.is_module and isinstance(value, self.python_class):
            return ClassType.from_python(value, self)
        raise Refused(f"Object {value} is not an instance of {self.qualified_name}")

    def isSubtypeOf(self, other: Type) -> bool:
        if isinstance(other, InterfaceType):
            return self.is_module == other.is_module and not missing_methods(self.methods, other)
        return other.written == "AnyClassType" or super().isSubtypeOf(other)


def missing_methods(methods: dict[str, Any], interface: InterfaceType) -> str:
    """What keeps a class with these methods from being the interface; empty if nothing does."""
    for name, wanted in interface.methods.items():
        found = methods.get(name)
        if found is None:
            return f"it doesn't have method '{name}'"
        have, want = found.schema, wanted.schema
        if len(have.arguments) != len(want.arguments):
            return f"'{name}' has another number of arguments"
        for mine, theirs in zip(have.arguments[1:], want.arguments[1:]):
            if mine.name != theirs.name or not theirs.type.isSubtypeOf(mine.type):
                return f"argument '{theirs.name}' of '{name}' does not fit"
        if not all(mine.type.isSubtypeOf(theirs.type) for mine, theirs in zip(have.returns, want.returns)):
            return f"'{name}' returns something else"
    return ""


_WORDS: dict[str, Type] = {
    "Tensor": TENSOR,
    "SymInt": INT, "ScalarType": INT, "Layout": INT, "MemoryFormat": INT, "SymBool": BOOL, "float": FLOAT, "NoneType": NONE,
    "QScheme": INT,
}  # fmt: skip


def canonical(kind: Type) -> Type:
    """The type as programs have it: sizes, dtypes, layouts and memory formats are integers, lists have any length."""
    if kind.written in _WORDS:
        return _WORDS[kind.written]
    if isinstance(kind, ListType):
        return ListType(canonical(kind.element))
    parts = kind.containedTypes()
    return kind.withContained([canonical(part) for part in parts]) if parts else kind


def unshaped(kind: Type) -> Type:
    """The type, in which nothing is said of a tensor but that it is one."""
    if isinstance(kind, TensorType):
        return TENSOR
    parts = kind.containedTypes()
    return kind.withContained([unshaped(part) for part in parts]) if parts and not isinstance(kind, FunctionType) else kind


def unify(a: Type, b: Type, default_to_union: bool = False, hint: Type | None = None) -> Type | None:
    """The type that has the values of both; None if only a union has, and that isn't wanted."""
    if is_tensor(a) and is_tensor(b):
        return a if type(a) is type(b) and a == b else b
    if a is b or a == b:
        return a
    if a.isSubtypeOf(b):
        return b
    if b.isSubtypeOf(a):
        return a
    if is_none(a) and not is_none(b):
        return OptionalType(b)
    if is_none(b) and not is_none(a):
        return OptionalType(a)
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        inner = unify(a.element if isinstance(a, OptionalType) else a, b.element if isinstance(b, OptionalType) else b)
        if inner is not None:
            return OptionalType(inner)
    found = _unify_parts(a, b)
    if found is not None or not default_to_union:
        return found
    return hint if hint is not None and a.isSubtypeOf(hint) and b.isSubtypeOf(hint) else make_union([a, b])


def unify_type_list(types: Sequence[Type]) -> Type:
    """The type that has the values of all. RuntimeError if none has, or there are none."""
    if not types:
        raise RuntimeError("unify_type_list takes at least one type")
    found = types[0]
    for at, kind in enumerate(types[1:], 1):
        both = unify(found, kind)
        if both is None:
            raise RuntimeError(
                f"Could not unify type list since element {at} of type {kind} did not match the types before it ({found})"
            )
        found = both
    return found


def _unify_parts(a: Type, b: Type) -> Type | None:
    """Tuples are unified item by item; lists, dicts and futures of tensors that differ in what is known of them as well."""
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        if len(a.elements()) != len(b.elements()):
            return None
        parts = [unify(x, y) for x, y in zip(a.elements(), b.elements())]
        return None if None in parts else TupleType([part for part in parts if part is not None])
    if isinstance(a, FutureType) and isinstance(b, FutureType):
        inner = unify(a.element, b.element)
        return None if inner is None else FutureType(inner, a.name)
    if isinstance(a, (ListType, DictType)) and type(a) is type(b) and unshaped(a) == unshaped(b):
        return unshaped(a)
    return None


def is_variable(kind: Type) -> bool:
    """Whether it stands for any type in a schema, as `t` does."""
    return isinstance(kind, NamedType) and kind.written[:1].islower()
