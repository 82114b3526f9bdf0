"""Element types: the `dtype` singletons, type promotion, `finfo` and `iinfo`.

Stands on NumPy (which array type carries each dtype). Used by every layer. Promotion follows PyTorch's lattice:
bool < integers < floats < complex, where float16 and bfloat16 meet in float32 and uint8 meets signed integers in the
next wider signed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from flambeau.base.naming import PACKAGE

__all__ = [
    "DIMENSIONED",
    "FLOAT8",
    "NUMBER",
    "ZERO_DIM",
    "by_name",
    "can_cast",
    "default_complex_dtype",
    "dtype",
    "finfo",
    "from_numpy",
    "get_default_dtype",
    "iinfo",
    "number_dtype",
    "promote_types",
    "result_dtype",
    "set_default_dtype",
]

BOOL, INTEGER, FLOAT, COMPLEX, OTHER = range(5)


class dtype:
    """An element type; the instances (`float32`, `int64`, ...) are singletons, compared with `is`.

    name: PyTorch's name ("float32"). scalar_name, c_name: the names in error messages ("Float", "float"). numpy: the NumPy
    dtype whose arrays carry the elements (bfloat16 travels as uint16). category: BOOL, INTEGER, FLOAT, COMPLEX or OTHER.
    """

    __slots__ = (
        "abbr",
        "c_name",
        "category",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "scalar_name",
    )
    abbr: str
    c_name: str
    category: int
    is_complex: bool
    is_floating_point: bool
    is_signed: bool
    itemsize: int
    name: str
    numpy: np.dtype[Any]
    scalar_name: str
    __module__ = PACKAGE

    def __new__(cls, *args: object, **kwargs: object) -> dtype:
        raise TypeError("cannot create 'torch.dtype' instances")

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'torch.dtype' is not an acceptable base type")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> dtype:
        return self

    def __getattr__(self, name: str) -> bool:
        if name == "is_signed":  # left unset where the question makes no sense
            kind = (
                "Bits types are undefined" if self.name.startswith("bits") else ("isSignedType not supported for quantized types")
            )
            raise RuntimeError(kind)
        raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")

    def to_complex(self) -> dtype:
        """The complex type whose parts have this type."""
        if self.category == COMPLEX:
            return self
        found = _COMPLEX_OF.get(self)
        if found is None:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return found

    def to_real(self) -> dtype:
        """The type of the parts of this complex type; any other type is returned as it is."""
        return _REAL_OF.get(self, self)


_NAMES: dict[str, dtype] = {}
_C_NAMES = {
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
}


def _make(name: str, scalar_name: str, abbr: str, itemsize: int, category: int, signed: bool | None, numpy: str) -> dtype:
    made = object.__new__(dtype)
    made.name, made.scalar_name, made.abbr = name, scalar_name, abbr
    made.c_name = _C_NAMES.get(name, name if category in (BOOL, OTHER) else f"c10::{scalar_name}")
    made.itemsize, made.category, made.numpy = itemsize, category, np.dtype(numpy)
    made.is_floating_point, made.is_complex = category == FLOAT, category == COMPLEX
    if signed is not None:
        made.is_signed = signed
    _NAMES[name] = made
    return made


uint8 = _make("uint8", "Byte", "u8", 1, INTEGER, False, "uint8")
int8 = _make("int8", "Char", "i8", 1, INTEGER, True, "int8")
int16 = _make("int16", "Short", "i16", 2, INTEGER, True, "int16")
int32 = _make("int32", "Int", "i32", 4, INTEGER, True, "int32")
int64 = _make("int64", "Long", "i64", 8, INTEGER, True, "int64")
uint16 = _make("uint16", "UInt16", "u16", 2, INTEGER, False, "uint16")
uint32 = _make("uint32", "UInt32", "u32", 4, INTEGER, False, "uint32")
uint64 = _make("uint64", "UInt64", "u64", 8, INTEGER, False, "uint64")
float16 = _make("float16", "Half", "f16", 2, FLOAT, True, "float16")
bfloat16 = _make("bfloat16", "BFloat16", "bf16", 2, FLOAT, True, "uint16")
float32 = _make("float32", "Float", "f32", 4, FLOAT, True, "float32")
float64 = _make("float64", "Double", "f64", 8, FLOAT, True, "float64")
complex32 = _make("complex32", "ComplexHalf", "c32", 4, COMPLEX, True, "uint32")
complex64 = _make("complex64", "ComplexFloat", "c64", 8, COMPLEX, True, "complex64")
complex128 = _make("complex128", "ComplexDouble", "c128", 16, COMPLEX, True, "complex128")
bool_ = _make("bool", "Bool", "b8", 1, BOOL, False, "bool")
float8_e5m2 = _make("float8_e5m2", "Float8_e5m2", "f8e5m2", 1, FLOAT, True, "uint8")
float8_e4m3fn = _make("float8_e4m3fn", "Float8_e4m3fn", "f8e4m3fn", 1, FLOAT, True, "uint8")
float8_e5m2fnuz = _make("float8_e5m2fnuz", "Float8_e5m2fnuz", "f8e5m2fnuz", 1, FLOAT, True, "uint8")
float8_e4m3fnuz = _make("float8_e4m3fnuz", "Float8_e4m3fnuz", "f8e4m3fnuz", 1, FLOAT, True, "uint8")
float8_e8m0fnu = _make("float8_e8m0fnu", "Float8_e8m0fnu", "f8e8m0fnu", 1, FLOAT, False, "uint8")
float4_e2m1fn_x2 = _make("float4_e2m1fn_x2", "Float4_e2m1fn_x2", "f4e2m1fnx2", 1, FLOAT, True, "uint8")
# Types of which quantized tensors are (ops/quantized), and types of bits, which are names only: nothing computes in them.
qint8 = _make("qint8", "QInt8", "qi8", 1, OTHER, None, "int8")
quint8 = _make("quint8", "QUInt8", "qu8", 1, OTHER, None, "uint8")
qint32 = _make("qint32", "QInt32", "qi32", 4, OTHER, None, "int32")
quint4x2 = _make("quint4x2", "QUInt4x2", "qu4x2", 1, OTHER, None, "uint8")
quint2x4 = _make("quint2x4", "QUInt2x4", "qu2x4", 1, OTHER, None, "uint8")
for _name in ("bits1x8", "bits2x4", "bits4x2", "bits8"):
    globals()[_name] = _make(_name, _name.capitalize(), _name, 1, OTHER, None, "uint8")
bits16 = _make("bits16", "Bits16", "bits16", 2, OTHER, None, "uint16")
for _bits in range(1, 8):
    globals()[f"uint{_bits}"] = _make(f"uint{_bits}", f"UInt{_bits}", f"u{_bits}", 1, OTHER, False, "uint8")
    globals()[f"int{_bits}"] = _make(f"int{_bits}", f"Int{_bits}", f"i{_bits}", 1, OTHER, True, "int8")

#: PyTorch's second names.
ALIASES: dict[str, dtype] = {
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "float": float32,
    "double": float64,
    "chalf": complex32,
    "cfloat": complex64,
    "cdouble": complex128,
    "bit": _NAMES["uint1"],
}
half, double, long, short = float16, float64, int64, int16
cfloat, cdouble, chalf = complex64, complex128, complex32

_COMPLEX_OF = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}
_REAL_OF = {complex32: float16, complex64: float32, complex128: float64}
QUANTIZED = frozenset((qint8, quint8, qint32, quint4x2, quint2x4))
#: The floats of one byte: kernels convert and move them, little else is defined for them.
FLOAT8 = frozenset((float8_e5m2, float8_e4m3fn, float8_e5m2fnuz, float8_e4m3fnuz, float8_e8m0fnu))
#: Names of dtypes at the numbers that PyTorch gives them, by which schemas and programs pass them.
NUMBERED = (
    *"uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32".split(),
    *"bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16".split(),
    *"float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64".split(),
    *(f"uint{bits}" for bits in range(1, 8)),
    *(f"int{bits}" for bits in range(1, 8)),
    *"float8_e8m0fnu float4_e2m1fn_x2".split(),
)
_WIDE_UNSIGNED = frozenset((uint16, uint32, uint64))


def by_name(name: str) -> dtype:
    """The dtype called `name` (PyTorch's first or second name). Raises KeyError."""
    return _NAMES.get(name) or ALIASES[name]


def all_dtypes() -> dict[str, dtype]:
    """Every public name, second names included, and its dtype."""
    return {**_NAMES, **ALIASES}


_OF_PYTHON: dict[Any, dtype] = {int: int64, float: float64, bool: bool_, complex: complex128}


def asked_for(given: Any) -> Any:
    """The dtype that a program means by a class of Python's numbers, `dtype=int`; anything else is returned as it is."""
    return given if given.__class__ is dtype or not isinstance(given, type) else _OF_PYTHON.get(given, given)


_OF_NUMPY = {
    d.numpy: d
    for d in (uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, float32, float64, complex64, complex128, bool_)
}


def from_numpy(array_dtype: np.dtype[Any]) -> dtype:
    """The dtype whose elements are those of a NumPy dtype; TypeError, in PyTorch's words, where there is none."""
    found = _OF_NUMPY.get(array_dtype)
    if found is None:
        found = _OF_NUMPY.get(array_dtype.newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {array_dtype.type.__module__}.{array_dtype.type.__name__}. The only "
            "supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, "
            "uint32, uint16, uint8, and bool."
        )
    return found


# ---------------------------------------------------------------- promotion


def _promote(a: dtype, b: dtype) -> dtype:
    """The join of two different types. Raises RuntimeError where PyTorch defines none."""
    names = f"attempted to promote {a.scalar_name} and {b.scalar_name}"
    if a in FLOAT8 or b in FLOAT8 or float4_e2m1fn_x2 in (a, b):
        raise RuntimeError(f"Promotion for Float8 Types is not supported, {names}")
    if OTHER in (a.category, b.category):
        raise RuntimeError(
            "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules "
            f"should be, offending types: {a.scalar_name} {b.scalar_name}"
        )
    if a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED:
        if FLOAT in (a.category, b.category):
            return a if a.category == FLOAT else b
        raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, {names}")
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        if low.category == FLOAT:  # complex parts wide enough for both
            return _promote_floats(low, high.to_real()).to_complex()
        return high
    if a.category == FLOAT:
        return _promote_floats(a, b)
    if a.category == COMPLEX:
        return _promote_floats(a.to_real(), b.to_real()).to_complex()
    if uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return a if a.itemsize >= b.itemsize else b


def _promote_floats(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a.itemsize == b.itemsize:  # float16 and bfloat16
        return float32
    return a if a.itemsize > b.itemsize else b


_PROMOTED: dict[tuple[dtype, dtype], dtype] = {}


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that holds the values of both. Raises RuntimeError where PyTorch defines none."""
    if type1 is type2:
        return type1
    found = _PROMOTED.get((type1, type2))
    if found is None:
        for position, given in enumerate((type1, type2)):
            if not isinstance(given, dtype):
                raise TypeError(
                    f"promote_types(): argument 'type{position + 1}' (position {position + 1}) must be "
                    f"torch.dtype, not {type(given).__name__}"
                )
        found = _PROMOTED[type1, type2] = _promote(type1, type2)
    return found


#: The three ranks of operand, by how much say they have in the type of a result.
NUMBER, ZERO_DIM, DIMENSIONED = 0, 1, 2

_RESULTS: dict[Sequence[tuple[dtype, int]], dtype] = {}


def result_dtype(operands: Iterable[tuple[dtype, int]]) -> dtype:
    """The type in which operands `(dtype, NUMBER | ZERO_DIM | DIMENSIONED)` meet.

    A lower rank only counts where its category (bool, integer, float, complex) is higher. A Python number's dtype is
    `number_dtype(value)`. Raises RuntimeError where PyTorch defines no promotion.
    """
    key = tuple(operands)
    found = _RESULTS.get(key)
    if found is not None:
        return found
    ranks: list[dtype | None] = [None, None, None]
    for given, rank in key:
        before = ranks[rank]
        ranks[rank] = given if before is None else promote_types(before, given)
    result = _outrank(ranks[DIMENSIONED], _outrank(ranks[ZERO_DIM], ranks[NUMBER]))
    if result is None:
        raise ValueError("result_dtype needs at least one operand")
    _RESULTS[key] = result
    return result


def _outrank(high: dtype | None, low: dtype | None) -> dtype | None:
    """What a rank's type becomes when operands of a lower rank join."""
    if high is None or low is None:
        return high or low
    if high.category == COMPLEX:
        return high
    if high.category == FLOAT:
        return high.to_complex() if low.category == COMPLEX else high
    if high.category == BOOL or low.category in (FLOAT, COMPLEX):
        return promote_types(high, low)
    return high


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether promotion may turn `from_` into `to`: never towards a lower category (complex, float, integer, bool)."""
    try:
        if from_.is_complex and not to.is_complex:
            return False
        if from_.is_floating_point and not (to.is_floating_point or to.is_complex):
            return False
        return not (from_.category == INTEGER and to.category == BOOL)
    except AttributeError:
        name, position, given = ("to", 2, to) if isinstance(from_, dtype) else ("from_", 1, from_)
        raise TypeError(
            f"can_cast(): argument '{name}' (position {position}) must be torch.dtype, not {type(given).__name__}"
        ) from None


# ---------------------------------------------------------------- the default type

_default: dtype = float32


def get_default_dtype() -> dtype:
    """The floating-point type of new tensors and of Python floats."""
    return _default


def set_default_dtype(d: dtype, /) -> None:
    """Set the floating-point type of new tensors and of Python floats. Raises TypeError for other types."""
    global _default
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point or d in FLOAT8:
        raise TypeError("only floating-point types are supported as the default type")
    if d is not _default:
        _default = d
        for forget in when_default_changes:
            forget()


#: Called after the default type changed: caches of what depends on it.
when_default_changes: list[Callable[[], None]] = []


def default_complex_dtype() -> dtype:
    """The complex type of new tensors and of Python complex numbers."""
    return _COMPLEX_OF[_default]


def number_dtype(value: object) -> dtype:
    """The type a Python number has when it meets tensors. Raises TypeError for anything else."""
    kind = type(value)
    if kind is int:
        return int64
    if kind is float:
        return _default
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return _default
    if isinstance(value, (complex, np.complexfloating)):
        return _COMPLEX_OF[_default]
    raise TypeError(f"expected a number, got {kind.__name__}")


# ---------------------------------------------------------------- limits

_FLOAT_LIMITS: dict[dtype, tuple[float, float, float, float, float]] = {
    # resolution, minimum, maximum, epsilon, smallest normal
    float64: (1e-15, -float(np.finfo(np.float64).max), float(np.finfo(np.float64).max), 2.0**-52, 2.0**-1022),
    float32: (1e-06, -(2 - 2.0**-23) * 2.0**127, (2 - 2.0**-23) * 2.0**127, 2.0**-23, 2.0**-126),
    bfloat16: (0.01, -(2 - 2.0**-7) * 2.0**127, (2 - 2.0**-7) * 2.0**127, 2.0**-7, 2.0**-126),
    float16: (0.001, -65504.0, 65504.0, 2.0**-10, 2.0**-14),
    float8_e4m3fn: (1.0, -448.0, 448.0, 2.0**-3, 2.0**-6),
    float8_e5m2: (1.0, -57344.0, 57344.0, 2.0**-2, 2.0**-14),
    float8_e4m3fnuz: (1.0, -240.0, 240.0, 2.0**-3, 2.0**-7),
    float8_e5m2fnuz: (1.0, -57344.0, 57344.0, 2.0**-3, 2.0**-15),
    float8_e8m0fnu: (1.0, 2.0**-127, 2.0**127, 1.0, 2.0**-127),
}


def _check_type_argument(function: str, given: object) -> None:
    if not isinstance(given, dtype):
        raise TypeError(f"{function}(): argument 'type' (position 1) must be torch.dtype, not {type(given).__name__}")


class finfo:
    """Limits of a floating-point type (of its parts, for a complex one); the default type if none is given."""

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")
    __module__ = PACKAGE

    def __init__(self, type: dtype | None = None) -> None:
        given = _default if type is None else type
        _check_type_argument("finfo", given)
        if given.category not in (FLOAT, COMPLEX):
            raise TypeError("torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'")
        real = given.to_real()
        if real not in _FLOAT_LIMITS:
            raise NotImplementedError(f"\"dtype\" not implemented for '{real.scalar_name}'")
        self.resolution, self.min, self.max, self.eps, self.tiny = _FLOAT_LIMITS[real]
        self.smallest_normal = self.tiny
        self.bits = real.itemsize * 8
        self.dtype = real.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("finfo", self.dtype))


class iinfo:
    """Limits of an integer type, or of the integers that a quantized type holds in memory."""

    __slots__ = ("_type", "bits", "max", "min")
    __module__ = PACKAGE

    def __init__(self, type: dtype) -> None:
        _check_type_argument("iinfo", type)
        if type.category == BOOL:
            raise TypeError(f"{type!r} is not supported by torch.iinfo")
        if type.category != INTEGER and type not in QUANTIZED:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        limits = np.iinfo(type.numpy)
        self._type, self.bits, self.min, self.max = type, limits.bits, int(limits.min), int(limits.max)

    @property
    def dtype(self) -> str:
        """The type's name. NotImplementedError for a quantized type, as in PyTorch."""
        if self._type in QUANTIZED:
            raise NotImplementedError(f"\"dtype\" not implemented for '{self._type.scalar_name}'")
        return self._type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self._type is other._type

    def __hash__(self) -> int:
        return hash(("iinfo", self._type))
