"""What serialized graphs hold: dtypes as numbers, sizes, what tensors are, arguments of calls. Part of schema."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from flambeau.export.serde.union import _Union, _union_dataclass

if TYPE_CHECKING:
    from flambeau.export.serde.schema import Graph


# ---------------------------------------------------------------- dtypes and layouts as numbers


class ScalarType(IntEnum):
    """A dtype."""

    UNKNOWN = 0
    BYTE = 1
    CHAR = 2
    SHORT = 3
    INT = 4
    LONG = 5
    HALF = 6
    FLOAT = 7
    DOUBLE = 8
    COMPLEXHALF = 9
    COMPLEXFLOAT = 10
    COMPLEXDOUBLE = 11
    BOOL = 12
    BFLOAT16 = 13
    UINT16 = 28
    FLOAT8E4M3FN = 29
    FLOAT8E5M2 = 30
    FLOAT8E4M3FNUZ = 31
    FLOAT8E5M2FNUZ = 32
    FLOAT8E8M0FNU = 33
    UINT32 = 34
    UINT64 = 35


class Layout(IntEnum):
    """A layout."""

    Unknown = 0
    SparseCoo = 1
    SparseCsr = 2
    SparseCsc = 3
    SparseBsr = 4
    SparseBsc = 5
    _mkldnn = 6
    Strided = 7


class MemoryFormat(IntEnum):
    """A memory format."""

    Unknown = 0
    ContiguousFormat = 1
    ChannelsLast = 2
    ChannelsLast3d = 3
    PreserveFormat = 4


@dataclass
class Device:
    """A device."""

    type: str
    index: int | None = None


# ---------------------------------------------------------------- sizes, and what tensors are


@_union_dataclass
class SymExprHint(_Union):
    """The value that an expression had when the program was exported."""

    as_int: int
    as_bool: bool
    as_float: float


@dataclass
class SymExpr:
    """An expression in symbolic sizes, as text."""

    expr_str: str
    hint: SymExprHint | None = None


@_union_dataclass
class SymInt(_Union):
    """A size."""

    as_expr: SymExpr
    as_int: int


@_union_dataclass
class SymFloat(_Union):
    """A number that may depend on sizes."""

    as_expr: SymExpr
    as_float: float


@_union_dataclass
class SymBool(_Union):
    """A truth that may depend on sizes."""

    as_expr: SymExpr
    as_bool: bool


@dataclass
class TensorMeta:
    """All of a tensor but its values."""

    dtype: ScalarType
    sizes: list[SymInt]
    requires_grad: bool
    device: Device
    strides: list[SymInt]
    storage_offset: SymInt
    layout: Layout


# ---------------------------------------------------------------- arguments


@_union_dataclass
class SymIntArgument(_Union):
    """A size, by the name of its node, or a number among sizes."""

    as_name: str
    as_int: int


@_union_dataclass
class SymFloatArgument(_Union):
    """A float, by the name of its node, or a number."""

    as_name: str
    as_float: float


@_union_dataclass
class SymBoolArgument(_Union):
    """A truth, by the name of its node, or a bool."""

    as_name: str
    as_bool: bool


@dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass
class TokenArgument:
    """A token that orders effects."""

    name: str


@_union_dataclass
class OptionalTensorArgument(_Union):
    """A tensor or None, in a list."""

    as_tensor: TensorArgument
    as_none: bool


@dataclass
class GraphArgument:
    """A graph that a higher-order operator runs."""

    name: str
    graph: Graph


@dataclass
class CustomObjArgument:
    """An object of a class of a program's own."""

    name: str
    class_fqn: str


@dataclass
class ComplexValue:
    """A complex number."""

    real: float
    imag: float


@_union_dataclass
class Argument(_Union):
    """An argument or a result of a node."""

    as_none: bool
    as_tensor: TensorArgument
    as_tensors: list[TensorArgument]
    as_int: int
    as_ints: list[int]
    as_float: float
    as_floats: list[float]
    as_string: str
    as_strings: list[str]
    as_sym_int: SymIntArgument
    as_sym_ints: list[SymIntArgument]
    as_scalar_type: ScalarType
    as_memory_format: MemoryFormat
    as_layout: Layout
    as_device: Device
    as_bool: bool
    as_bools: list[bool]
    as_sym_bool: SymBoolArgument
    as_sym_bools: list[SymBoolArgument]
    as_graph: GraphArgument
    as_optional_tensors: list[OptionalTensorArgument]
    as_custom_obj: CustomObjArgument
    as_operator: str
    as_sym_float: SymFloatArgument
    as_sym_floats: list[SymFloatArgument]
    as_optional_tensor: OptionalTensorArgument
    as_complex: ComplexValue
    as_nested_tensors: list[list[TensorArgument]]
    as_int_lists: list[list[int]]
    as_string_to_argument: dict[str, Argument]
    as_float_lists: list[list[float]]


class ArgumentKind(IntEnum):
    """How an argument is given."""

    UNKNOWN = 0
    POSITIONAL = 1
    KEYWORD = 2


@dataclass
class NamedArgument:
    """An argument, by its name in the operator's schema."""

    name: str
    arg: Argument
    kind: ArgumentKind | None = None
