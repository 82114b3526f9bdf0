"""float8 elements in kernels: the code of one byte as a float32 register, and back.

Stands on base.small_floats, whose table says where the bits lie; codegen.scalar calls it where it loads and stores. Nothing here
goes through subnormal float32 numbers, so the processor's treatment of them doesn't matter.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from flambeau.base.dtype import dtype as DType
from flambeau.base.small_floats import FORMATS

if TYPE_CHECKING:
    from flambeau.codegen.scalar import Lowering

NAN, INFINITY = 0x7FC00000, 0x7F800000


def _number(value: float) -> str:
    """A float32 constant as LLVM writes it."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class _Bits:
    """Integer arithmetic on registers of 32 bits: operands are registers or Python ints."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.integer, self.single = low.type("i32"), low.type("float")

    def text(self, operand: str | int) -> str:
        return operand if isinstance(operand, str) else self.low.fixed("i32", str(operand))

    def do(self, op: str, a: str | int, b: str | int) -> str:
        return self.low._line(f"{op} {self.integer} {self.text(a)}, {self.text(b)}")

    def choose(self, condition: str, a: str | int, b: str | int) -> str:
        return self.low.select(condition, "i32", self.text(a), self.text(b))

    def convert(self, op: str, value: str, source: str, target: str) -> str:
        return self.low._line(f"{op} {self.low.type(source)} {value} to {self.low.type(target)}")

    def times(self, value: str, factor: float) -> str:
        return self.low._line(f"fmul {self.single} {value}, {self.low.fixed('float', _number(factor))}")


def widen(low: Lowering, dtype: DType, raw: str) -> str:
    """The float32 value of a code in a register of i8."""
    b = _Bits(low)
    code = b.convert("zext", raw, "i8", "i32")
    if dtype not in FORMATS:  # an exponent alone; that of zero is 2^-127, which float32 has without a leading one
        bits = b.choose(b.do("icmp eq", code, 0), 0x00400000, b.do("shl", code, 23))
        return b.convert("bitcast", b.choose(b.do("icmp eq", code, 255), NAN, bits), "i32", "float")
    form = FORMATS[dtype]
    size = b.do("and", code, 0x7F)
    normal = b.do("add", b.do("shl", size, 23 - form.mantissa), (127 - form.bias) << 23)
    small = b.convert("bitcast", b.times(b.convert("uitofp", size, "i32", "float"), form.step), "float", "i32")
    bits = b.choose(b.do("icmp ult", size, 1 << form.mantissa), small, normal)
    if form.largest < 0x7F:
        bits = b.choose(b.do("icmp ugt", size, form.largest), NAN, bits)
    if form.infinite:
        bits = b.choose(b.do("icmp eq", size, form.largest + 1), INFINITY, bits)
    if not form.signed_zero:
        bits = b.choose(b.do("icmp eq", code, 0x80), NAN, bits)
    sign = b.do("shl", b.do("and", code, 0x80), 24)
    return b.convert("bitcast", b.do("or", bits, sign), "i32", "float")


def narrow(low: Lowering, dtype: DType, value: str) -> str:
    """The code of a float32 value, rounded to nearest even, in a register of i8."""
    b = _Bits(low)
    bits = b.convert("bitcast", value, "float", "i32")
    size = b.do("and", bits, 0x7FFFFFFF)
    if dtype not in FORMATS:
        exponent, rest = b.do("lshr", size, 23), b.do("and", size, 0x7FFFFF)
        half = b.choose(b.do("icmp eq", exponent, 0), 0x400001, 0x400000)  # a tie goes up, but not from the least exponent
        up = b.convert("zext", b.do("icmp uge", rest, half), "i1", "i32")
        code = b.choose(b.do("icmp uge", size, INFINITY), 0xFF, b.do("add", exponent, up))
        return b.convert("trunc", code, "i32", "i8")
    form = FORMATS[dtype]
    cut = 23 - form.mantissa
    odd = b.do("and", b.do("lshr", size, cut), 1)
    rounded = b.do("lshr", b.do("add", b.do("add", size, odd), (1 << (cut - 1)) - 1), cut)
    normal = b.do("sub", rounded, (127 - form.bias) << form.mantissa)
    is_small = b.do("icmp ult", size, (128 - form.bias) << 23)
    # Below the least normal value the codes count steps; what is larger is taken for 0 here, so that it fits an integer.
    below = b.convert("bitcast", b.choose(is_small, size, 0), "i32", "float")
    steps = low._call(f"llvm.roundeven.{low._suffix('float')}", b.single, [(b.single, b.times(below, 1 / form.step))])
    code = b.choose(is_small, b.convert("fptoui", steps, "float", "i32"), normal)
    code = b.choose(b.do("icmp ugt", code, form.largest), form.beyond, code)
    code = b.choose(b.do("icmp ugt", size, INFINITY), form.nan, code)
    sign = b.do("and", b.do("lshr", bits, 24), 0x80)
    if not form.signed_zero:
        sign = b.choose(b.do("icmp eq", code, 0), 0, sign)
    return b.convert("trunc", b.do("or", code, sign), "i32", "i8")
