"""Dtypes, layouts, memory formats, devices and what tensors are, as the format has them, and back.

Stands on schema; used by reading, writing and export.pt2_archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import flambeau as torch
from flambeau._subclasses.symbolic.state import env_of, offset_of, sizes_of, strides_of
from flambeau.base.symbolic.expressions import Expr
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.base.symbolic.printing import repr_of
from flambeau.export.serde import schema
from flambeau.export.serde.schema import Layout, MemoryFormat, ScalarType
from flambeau.export.serde.text import SerializeError

__all__ = ["device_of", "dtype_of", "layout_of", "memory_format_of", "number_of", "numbers_of", "serialized", "tensor_meta"]

K = TypeVar("K")

DTYPES = {
    torch.uint8: ScalarType.BYTE, torch.int8: ScalarType.CHAR, torch.int16: ScalarType.SHORT, torch.int32: ScalarType.INT,
    torch.int64: ScalarType.LONG, torch.float16: ScalarType.HALF, torch.float32: ScalarType.FLOAT,
    torch.float64: ScalarType.DOUBLE, torch.complex32: ScalarType.COMPLEXHALF, torch.complex64: ScalarType.COMPLEXFLOAT,
    torch.complex128: ScalarType.COMPLEXDOUBLE, torch.bool: ScalarType.BOOL, torch.bfloat16: ScalarType.BFLOAT16,
    torch.uint16: ScalarType.UINT16, torch.uint32: ScalarType.UINT32, torch.uint64: ScalarType.UINT64,
    torch.float8_e4m3fn: ScalarType.FLOAT8E4M3FN, torch.float8_e5m2: ScalarType.FLOAT8E5M2,
    torch.float8_e4m3fnuz: ScalarType.FLOAT8E4M3FNUZ, torch.float8_e5m2fnuz: ScalarType.FLOAT8E5M2FNUZ,
    torch.float8_e8m0fnu: ScalarType.FLOAT8E8M0FNU,
}  # fmt: skip
LAYOUTS = {
    torch.strided: Layout.Strided, torch.sparse_coo: Layout.SparseCoo, torch.sparse_csr: Layout.SparseCsr,
    torch.sparse_csc: Layout.SparseCsc, torch.sparse_bsr: Layout.SparseBsr, torch.sparse_bsc: Layout.SparseBsc,
}  # fmt: skip
MEMORY_FORMATS = {
    torch.contiguous_format: MemoryFormat.ContiguousFormat, torch.channels_last: MemoryFormat.ChannelsLast,
    torch.channels_last_3d: MemoryFormat.ChannelsLast3d, torch.preserve_format: MemoryFormat.PreserveFormat,
}  # fmt: skip


def _turned(table: dict[Any, K]) -> dict[K, Any]:
    return {number: thing for thing, number in table.items()}


_DTYPES, _LAYOUTS, _MEMORY_FORMATS = map(_turned, (DTYPES, LAYOUTS, MEMORY_FORMATS))


def _found(table: dict[Any, Any], number: Any) -> Any:
    if number not in table:
        raise SerializeError(f"flambeau has no {type(number).__name__} {number.name}")
    return table[number]


def dtype_of(number: ScalarType) -> torch.dtype:
    """The dtype that a number stands for."""
    return _found(_DTYPES, number)


def layout_of(number: Layout) -> torch.layout:
    """The layout that a number stands for."""
    return _found(_LAYOUTS, number)


def memory_format_of(number: MemoryFormat) -> torch.memory_format:
    """The memory format that a number stands for."""
    return _found(_MEMORY_FORMATS, number)


def serialized(thing: Any) -> Any:
    """The number of a dtype, layout or memory format. SerializeError for one that the format doesn't have."""
    for table in (DTYPES, LAYOUTS, MEMORY_FORMATS):
        if thing in table:
            return table[thing]
    raise SerializeError(f"{thing} can't be written: the format of exported programs doesn't have it")


def device_of(device: schema.Device) -> torch.device:
    """The device. RuntimeError for a kind that there isn't."""
    return torch.device(device.type) if device.index is None else torch.device(device.type, device.index)


def device_meta(device: torch.device) -> schema.Device:
    """A device, in the format."""
    return schema.Device(device.type, device.index)


def number_of(size: schema.SymInt) -> int:
    """A size that must be a number."""
    if size.type != "as_int":
        raise SerializeError(f"the size of a weight must be a number, got {size.value.expr_str[:80]!r}")
    return size.as_int


def numbers_of(sizes: Sequence[schema.SymInt]) -> tuple[int, ...]:
    """Sizes that must be numbers."""
    return tuple(map(number_of, sizes))


def _expression(e: Expr, env: Any, hint: str) -> schema.SymExpr:
    """An expression, with its value for the example where that is known."""
    known = bool(hint) and not env.unbacked_in(e)
    return schema.SymExpr(repr_of(e), schema.SymExprHint.create(**{hint: env.value_of(e)}) if known else None)


def size_meta(size: Any) -> schema.SymInt:
    """A size, in the format."""
    if is_symbolic_number(size):
        return schema.SymInt.create(as_expr=_expression(size.node.expr, size.node.shape_env, "as_int"))
    return schema.SymInt.create(as_int=int(size))


def float_meta(number: Any) -> schema.SymFloat:
    """A float, in the format."""
    if is_symbolic_number(number):
        return schema.SymFloat.create(as_expr=_expression(number.node.expr, number.node.shape_env, "as_float"))
    return schema.SymFloat.create(as_float=float(number))


def truth_meta(truth: Any) -> schema.SymBool:
    """A truth, in the format."""
    if is_symbolic_number(truth):
        return schema.SymBool.create(as_expr=_expression(truth.node.expr, truth.node.shape_env, ""))
    return schema.SymBool.create(as_bool=bool(truth))


def _sizes(tensor: torch.Tensor) -> Iterator[list[schema.SymInt]]:
    """The sizes and the strides of a tensor, and its offset, in the format; no guard comes of asking."""
    env = env_of([tensor])
    for some in (sizes_of(tensor), strides_of(tensor), [offset_of(tensor)]):
        yield [
            schema.SymInt.create(as_int=int(e)) if e.is_number else schema.SymInt.create(as_expr=_expression(e, env, "as_int"))
            for e in some
        ]


def tensor_meta(tensor: torch.Tensor) -> schema.TensorMeta:
    """What a tensor is, in the format. SerializeError for a dtype or layout that it doesn't have."""
    strided = tensor.layout is torch.strided
    zero = schema.SymInt.create(as_int=0)
    sizes, strides, offset = _sizes(tensor) if strided else ([size_meta(n) for n in tensor.shape], [], [zero])
    return schema.TensorMeta(
        dtype=serialized(tensor.dtype),
        sizes=sizes,
        requires_grad=tensor.requires_grad,
        device=device_meta(tensor.device),
        strides=strides,
        storage_offset=offset[0],
        layout=serialized(tensor.layout),
    )
