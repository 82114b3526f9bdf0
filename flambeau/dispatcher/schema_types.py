"""The types of a schema's arguments and results: Tensor, int, Optional[...], List[...] and their like.

Each is an object of a class by PyTorch's name (`TensorType`, `ListType` ...), prints as PyTorch's does, and takes a
Python value for an argument of its type or refuses it (`take`). Stands on base and core.tensor.tensor; used by schema and
calling.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from typing import Any, ClassVar

from flambeau.base.device import device
from flambeau.base.dtype import dtype
from flambeau.base.layout import contiguous_strides, layout, memory_format
from flambeau.base.naming import PACKAGE
from flambeau.base.rng import Generator
from flambeau.base.symbolic.numbers import SymInt, is_symbolic_number
from flambeau.core.tensor.tensor import Tensor

__all__ = [
    "AnyType", "BoolType", "ComplexType", "DeviceObjType", "DictType", "FloatType", "FutureType", "GeneratorType",
    "IntType", "ListType", "NamedType", "NoneType", "NumberType", "OptionalType", "Refused", "StringType", "TensorType",
    "TracedNumber", "TupleType", "Type", "named", "real",
]  # fmt: skip

_NO_CONVERSION = (
    "Cast error details: Unable to cast Python instance of type {} to C++ type '?' (#define "
    "PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)"
)


class Refused(Exception):
    """A value is not of the type; the text says why."""


def _refuse(value: Any) -> Refused:
    return Refused(_NO_CONVERSION.format(type(value)))


class TracedNumber(int):
    """An integer that a tensor of a trace stands for; operators are given it as any integer."""

    tensor: Any

    @staticmethod
    def of(tensor: Any) -> TracedNumber:
        """The number in a tensor of one integer."""
        made = TracedNumber(tensor.item())
        made.tensor = tensor
        return made


class Type:
    """The type of an argument or a result; `written`: how a schema writes it."""

    __module__ = PACKAGE
    written = python = ""

    def take(self, value: Any) -> Any:
        """The value as a kernel gets it; Refused if it isn't one of this type."""
        return value

    def kind(self) -> str:
        """The name of the class."""
        return type(self).__name__

    @property
    def annotation_str(self) -> str:
        """As Python's annotations write it."""
        return str(self)

    def __str__(self) -> str:
        return self.python or self.written

    def __repr__(self) -> str:
        return self.written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def isSubtypeOf(self, other: Type) -> bool:
        """Whether every value of this type is one of the other."""
        if self == other or isinstance(other, AnyType):
            return True
        if isinstance(other, OptionalType):
            return isinstance(self, NoneType) or self.isSubtypeOf(other.element)
        return any(self.isSubtypeOf(member) for member in other.containedUnionTypes())

    def containedUnionTypes(self) -> list[Type]:
        """The members of a union; none for any other type."""
        return []

    def containedTypes(self) -> list[Type]:
        """The types that it is made of."""
        return []

    def withContained(self, parts: list[Type]) -> Type:
        """The type made of others in place of `containedTypes`."""
        return self


class TensorType(Type):
    """A tensor; None stands for one that is left undefined."""

    written = "Tensor"
    shaped: ClassVar[Callable[..., TensorType]]  # makes a type that says more; `shaped_types` sets it

    def take(self, value: Any) -> Any:
        if value is not None and not isinstance(value, Tensor):
            raise Refused(f"Cast error details: Unable to cast {value!r} to Tensor")
        return value

    @staticmethod
    def get() -> TensorType:
        """The type of tensors of any dtype and shape."""
        return TensorType()

    # ---- what is known of the tensors; shaped_types has the types of which something is
    def dtype(self) -> Any:
        """Their dtype, if it is known."""
        return None

    def scalarType(self) -> str | None:
        """What graphs call their dtype, if it is known."""
        return None

    def dim(self) -> int | None:
        """The number of their dimensions, if it is known."""
        return None

    def symbolic_sizes(self) -> list[int] | None:
        """Their sizes, in which negative numbers stand for unknown ones, if the number of dimensions is known."""
        return None

    def sizes(self) -> list[int] | None:
        """Their sizes, if all are known."""
        found = self.symbolic_sizes()
        return None if found is None or any(size < 0 for size in found) else found

    def varyingSizes(self) -> list[int | None] | None:
        """Their sizes, None for each that isn't known, if the number of dimensions is."""
        found = self.symbolic_sizes()
        return None if found is None else [None if size < 0 else size for size in found]

    def strides(self) -> list[int] | None:
        """Their strides, if they are known."""
        return None

    def device(self) -> Any:
        """Their device, if it is known."""
        return None

    def requires_grad(self) -> bool:
        """Whether they may require grad."""
        return True

    def undefined(self) -> bool:
        """Whether they are left undefined."""
        return False

    def _with(self, **changes: Any) -> TensorType:
        return TensorType.shaped(**changes)

    def with_sizes(self, sizes: Any) -> TensorType:
        """The type with these sizes, None for those that aren't known; of the strides nothing is known any more."""
        return self._with(sizes=sizes, strides=None)

    def with_dtype(self, dtype: Any) -> TensorType:
        """The type with a dtype."""
        return self._with(kind=dtype)

    def with_device(self, device: Any) -> TensorType:
        """The type with a device."""
        return self._with(place=device)

    def contiguous(self) -> TensorType:
        """The type with the strides of contiguous tensors, where all sizes are known."""
        sizes = self.sizes()
        return self if sizes is None else self._with(strides=contiguous_strides(sizes))


class IntType(Type):
    """An integer, or what converts to one without loss; also a size (`SymInt`)."""

    python = "int"

    def __init__(self, written: str = "int") -> None:
        self.written = written

    def take(self, value: Any) -> Any:
        if type(value) is TracedNumber or (self.written == "SymInt" and isinstance(value, SymInt)):
            return value
        try:
            return operator.index(value)
        except (TypeError, RuntimeError):
            raise _refuse(value) from None

    def isSubtypeOf(self, other: Type) -> bool:
        return isinstance(other, (IntType, NumberType)) or super().isSubtypeOf(other)


class _CodeType(IntType):
    """What PyTorch passes as a number and Python has objects of a class for: dtypes, layouts, memory formats."""

    __module__ = PACKAGE

    def __init__(self, written: str, cls: type) -> None:
        super().__init__(written)
        self.cls = cls

    def take(self, value: Any) -> Any:
        return value if isinstance(value, self.cls) else super().take(value)


class FloatType(Type):
    """A number that converts to float."""

    python = "float"

    def __init__(self, written: str = "float") -> None:
        self.written = written

    def take(self, value: Any) -> Any:
        if type(value) is TracedNumber:
            return value
        if isinstance(value, (numbers.Real, Tensor)) or (hasattr(value, "__float__") and not isinstance(value, str)):
            try:
                return float(value)
            except (TypeError, ValueError):
                pass
        raise _refuse(value)

    def isSubtypeOf(self, other: Type) -> bool:
        return isinstance(other, (FloatType, NumberType)) or super().isSubtypeOf(other)


class ComplexType(Type):
    """A complex number."""

    written = "complex"

    def isSubtypeOf(self, other: Type) -> bool:
        return isinstance(other, NumberType) or super().isSubtypeOf(other)

    def take(self, value: Any) -> Any:
        if not isinstance(value, numbers.Complex):
            raise _refuse(value)
        return complex(value)


class BoolType(Type):
    """A truth value."""

    python = "bool"

    def __init__(self, written: str = "bool") -> None:
        self.written = written

    def take(self, value: Any) -> Any:
        if value is not None and not hasattr(value, "__bool__"):
            raise _refuse(value)
        return bool(value)


class NumberType(Type):
    """A number of any kind (`Scalar`)."""

    written, python = "Scalar", "number"

    def take(self, value: Any) -> Any:
        if isinstance(value, Tensor) and not value._layout.ndim:
            return value.item()  # type: ignore[attr-defined]
        if not isinstance(value, numbers.Number) and not is_symbolic_number(value):
            raise Refused(f"Cast error details: Cannot cast {value!r} to number")
        return value


class StringType(Type):
    """A text."""

    written = "str"

    def take(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise _refuse(value)
        return value


class DeviceObjType(Type):
    """A device, or its name."""

    written = "Device"

    def take(self, value: Any) -> Any:
        if not isinstance(value, (str, device, int)):
            raise _refuse(value)
        return device(value)


class GeneratorType(Type):
    """A random generator."""

    written = "Generator"

    def take(self, value: Any) -> Any:
        if not isinstance(value, Generator):
            raise _refuse(value)
        return value


class AnyType(Type):
    """Anything."""

    written = "Any"


class NoneType(Type):
    """None."""

    written = "NoneType"

    def take(self, value: Any) -> Any:
        if value is not None:
            raise Refused(f"Cast error details: Cannot cast {value!r} to None")
        return value


class NamedType(Type):
    """A type of which only the name is known: a type variable (`t`), a class of PyTorch's (`Storage`)."""

    def __init__(self, written: str) -> None:
        self.written = written


#: Kinds of objects that operators take beside tensors, as schemas call them behind `__torch__.torch.classes.`: packed weights of
#: quantized operators. An object says its kind by an attribute of that name.
OBJECTS = frozenset(
    (
        "quantized.LinearPackedParamsBase",
        "quantized.Conv2dPackedParamsBase",
        "quantized.Conv3dPackedParamsBase",
        "quantized.EmbeddingPackedParamsBase",
        "rnn.CellParamsBase",
    )
)


class ObjectType(Type):
    """An object of one of those kinds."""

    def __init__(self, short: str) -> None:
        self.short, self.written = short, f"__torch__.torch.classes.{short}"

    def take(self, value: Any) -> Any:
        if getattr(value, "kind", None) != self.short:
            raise _refuse(value)
        return value


class OptionalType(Type):
    """A value of the element's type, or None."""

    def __init__(self, element: Type) -> None:
        self.element, self.written = element, f"{element.written}?"

    def getElementType(self) -> Type:
        """The type of what is not None."""
        return self.element

    def containedTypes(self) -> list[Type]:
        return [self.element]

    def withContained(self, parts: list[Type]) -> Type:
        return OptionalType(parts[0])

    def isSubtypeOf(self, other: Type) -> bool:
        if isinstance(other, OptionalType):
            return self.element.isSubtypeOf(other.element)
        if other.containedUnionTypes():
            return NoneType().isSubtypeOf(other) and self.element.isSubtypeOf(other)
        return super().isSubtypeOf(other)

    def take(self, value: Any) -> Any:
        return None if value is None else self.element.take(value)

    def __str__(self) -> str:
        return f"Optional[{self.element}]"


class ListType(Type):
    """A list; of a fixed length `count` (`int[2]`) a single value stands for as many of it."""

    def __init__(self, element: Type, count: int | None = None) -> None:
        self.element, self.count = element, count
        self.written = f"{element.written}[{'' if count is None else count}]"

    def getElementType(self) -> Type:
        """The type of the items."""
        return self.element

    def containedTypes(self) -> list[Type]:
        return [self.element]

    def withContained(self, parts: list[Type]) -> Type:
        return ListType(parts[0], self.count)

    def isSubtypeOf(self, other: Type) -> bool:
        if isinstance(other, ListType):
            return self.element == other.element
        return other.written == "AnyListType" or super().isSubtypeOf(other)

    def take(self, value: Any) -> Any:
        if self.count is not None and isinstance(value, (numbers.Number, SymInt)):
            return [self.element.take(value)] * self.count
        if isinstance(value, (str, Tensor)):
            raise _refuse(value)
        if getattr(value, "kind", None) == self:  # a list that programs change in place
            return value
        try:
            items = list(value)
        except TypeError as error:
            raise Refused(f" Python error details: TypeError: {error}") from None
        return [self.element.take(item) for item in items]

    def __str__(self) -> str:
        return f"List[{self.element}]"


class TupleType(Type):
    """A tuple of values of these types."""

    def __init__(self, elements: list[Type]) -> None:
        self._elements, self.written = elements, f"({', '.join(e.written for e in elements)})"

    def elements(self) -> list[Type]:
        """The types of the items."""
        return self._elements

    def containedTypes(self) -> list[Type]:
        return self._elements

    def withContained(self, parts: list[Type]) -> Type:
        return TupleType(parts)

    def isSubtypeOf(self, other: Type) -> bool:
        if isinstance(other, TupleType) and not hasattr(other, "names"):
            theirs = other.elements()
            return len(theirs) == len(self._elements) and all(a.isSubtypeOf(b) for a, b in zip(self._elements, theirs))
        return other.written == "AnyTupleType" or super().isSubtypeOf(other)

    def take(self, value: Any) -> Any:
        if not isinstance(value, tuple) or len(value) != len(self._elements):
            raise _refuse(value)
        return tuple(e.take(item) for e, item in zip(self._elements, value))

    def __str__(self) -> str:
        return f"Tuple[{', '.join(map(str, self._elements)) or '()'}]"


class DictType(Type):
    """A dict."""

    def __init__(self, key: Type, value: Type) -> None:
        self.key, self.value = key, value
        self.written = f"Dict({key.written}, {value.written})"

    def getKeyType(self) -> Type:
        """The type of the keys."""
        return self.key

    def getValueType(self) -> Type:
        """The type of the values."""
        return self.value

    def containedTypes(self) -> list[Type]:
        return [self.key, self.value]

    def withContained(self, parts: list[Type]) -> Type:
        return DictType(*parts)

    def take(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise _refuse(value)
        if getattr(value, "kind", None) == self:  # a dict that programs change in place
            return value
        return {self.key.take(k): self.value.take(v) for k, v in value.items()}

    def __str__(self) -> str:
        return f"Dict[{self.key}, {self.value}]"


class FutureType(Type):
    """A Future of a value of this type."""

    def __init__(self, element: Type, name: str = "Future") -> None:
        self.element, self.name = element, name
        self.written = f"{name}({element.written})"

    def getElementType(self) -> Type:
        """The type of the value that is waited for."""
        return self.element

    def containedTypes(self) -> list[Type]:
        return [self.element]

    def withContained(self, parts: list[Type]) -> Type:
        return FutureType(parts[0], self.name)

    def isSubtypeOf(self, other: Type) -> bool:
        if isinstance(other, FutureType) and self.name == other.name:
            return self.element.isSubtypeOf(other.element)
        return super().isSubtypeOf(other)

    def __str__(self) -> str:
        return f"{self.name}[{self.element}]"


_NAMED: dict[str, Type] = {
    "Tensor": TensorType(),
    "int": IntType(),
    "SymInt": IntType("SymInt"),
    "float": FloatType(),
    "bool": BoolType(),
    "SymBool": BoolType("SymBool"),
    "complex": ComplexType(),
    "Scalar": NumberType(),
    "str": StringType(),
    "Device": DeviceObjType(),
    "ScalarType": _CodeType("ScalarType", dtype),
    "Layout": _CodeType("Layout", layout),
    "MemoryFormat": _CodeType("MemoryFormat", memory_format),
    "Generator": GeneratorType(),
    "Any": AnyType(),
    "NoneType": NoneType(),
    "None": NoneType(),
    **{name: NamedType(name) for name in "Storage Stream Dimname QScheme Capsule RRef".split()},
    **{name: NamedType(name) for name in "AnyEnumType AnyClassType AnyListType".split()},
}


def passed(kind: Type) -> str:
    """As a schema writes a type, with dtypes, formats and sizes as the numbers that they are passed as."""
    if isinstance(kind, OptionalType):
        return f"{passed(kind.element)}?"
    if isinstance(kind, ListType):
        return f"{passed(kind.element)}[]"
    return kind.python if isinstance(kind, (IntType, FloatType, BoolType)) else kind.written


Type.str = passed  # type: ignore[attr-defined]


def real(kind: Type) -> Type:
    """The type with the words of dtypes, layouts and memory formats where it says `int` for them."""
    if isinstance(kind, _CodeType) or kind.written.startswith("Sym"):
        return NamedType(kind.written)
    if isinstance(kind, OptionalType):
        return OptionalType(real(kind.element))
    return ListType(real(kind.element), kind.count) if isinstance(kind, ListType) else kind


def named(name: str) -> Type | None:
    """The type that a schema writes as one word; None if there is none of that name."""
    if name in _NAMED:
        return _NAMED[name]
    return NamedType(name) if name[:1].islower() and len(name) <= 4 and name.isalnum() else None
