"""Products of floats with quantized weights, as libraries of quantized models call them: int8 by rows, and packed int4 by groups.

torch._weight_int8pack_mm, torch._weight_int4pack_mm_for_cpu and the packing that the last one reads: two columns in a byte, the
first in the low half. Few rows of floats are multiplied by weights that are widened in registers (codegen.quantized); for many,
the weights are widened once and ops.linalg.matmul multiplies. Loaded when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import bfloat16, float16, float32, int8, int32, uint8
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.element_type import kind_of
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.quantized import weight_only as kernels
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.targets import lowered
from flambeau.core.autograd.undefined import recorded
from flambeau.core.modes.modes import no_grad
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.linalg.int_mm import _expect
from flambeau.ops.linalg.matmul import mm

__all__ = ["_convert_weight_to_int4pack_for_cpu", "_weight_int4pack_mm_for_cpu", "_weight_int8pack_mm"]

_plans: dict[Any, Callable] = register_cache({})
_GROUPS = (32, 64, 128, 256)
FEW_ROWS = 48  # of floats, up to which widening the weights by itself costs more than it saves
SERIAL = 48 * 1024  # multiply-adds that one thread does


def _few(x: Tensor, weight: Tensor, scales: Tensor, bits: int, group: int = 0) -> Tensor:
    """The product of few rows (m, k) and weights of n rows."""
    given = x, weight, scales
    key = bits, group, *[y._layout for y in given]
    launch = _plans.get(key)
    if launch is None:
        (m, k), n, threads = x._layout.shape, weight._layout.shape[0], planned_threads()
        rows = -(-m // max(1, -(-m // kernels.MOST_ROWS)))
        form = kernels.Form(kind_of(x._layout.dtype), kind_of(scales._layout.dtype), bits, max(1, rows))
        if bits == 4 and group < form.step:
            form = form._replace(narrow_group=group)
        floats = kernels.prepared_floats(form, k)
        each = m * floats * 4
        tiles = -(-n // form.columns)
        grain = tiles if m * n * k <= SERIAL else -(-tiles // (4 * threads))
        strides = x._layout.strides[0], weight._layout.strides[0]
        constants = (m, k, n, *strides, floats, max(group.bit_length() - 1, 0), each)
        phase = Phase(kernels.weight_only_kernel(form), tiles if m else 0, max(1, grain), constants)
        out = Layout.contiguous((m, n), x._layout.dtype, x._layout.device)
        launch = _plans[key] = lowered(
            Plan([phase], [out], [y._layout for y in given], scratch=threads * each, release=m * n * k >= RELEASE_FROM)
        )
    return launch(None, *given)


def _widened(weight: Tensor, scales: Tensor, group: int) -> Tensor:
    """Packed weights (n, k / 2) as float32 (n, k)."""
    key = group, weight._layout, scales._layout
    launch = _plans.get(key)
    if launch is None:
        n, k = weight._layout.shape[0], 2 * weight._layout.shape[1]
        form = kernels.Form(kind_of(float32), kind_of(scales._layout.dtype), 4, 1)
        constants = (0, k, n, 0, weight._layout.strides[0], 0, group.bit_length() - 1, 0)
        phase = Phase(kernels.widened_kernel(form), n, max(1, -(-n // (4 * planned_threads()))), constants)
        out = Layout.contiguous((n, k), float32, weight._layout.device)
        launch = _plans[key] = lowered(Plan([phase], [out], [weight._layout, scales._layout], release=n * k >= RELEASE_FROM))
    return launch(None, weight, scales)


def _float_operand(name: str, x: Tensor) -> None:
    _expect(x._layout.dtype in (float32, float16, bfloat16), f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    _expect(x._layout.ndim == 2, f"{name} : expect A to be 2D tensor.")


def _expect_same_dtype(x: Tensor, scales: Tensor) -> None:
    wanted, given = x._layout.dtype, scales._layout.dtype
    _expect(given is wanted, f"expected scalar type {wanted.scalar_name} but found {given.scalar_name}")


def _weight_int8pack_mm(input: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """input (m, k) times the transpose of int8 weights mat2 (n, k), each row of which counts scales (n,): (m, n), of the input's
    dtype (float32, float16 or bfloat16), summed in float32. RuntimeError for other dtypes and shapes.
    """
    name = "_weight_int8pack_mm_cpu"
    _float_operand(name, input)
    _expect(mat2._layout.dtype is int8, f"{name} : expect B to be int8 tensor.")
    _expect(mat2.is_contiguous(), f"{name} : expect B to be contiguous.")
    rows = mat2._layout.shape[0]
    _expect(
        mat2._layout.ndim == 2 and mat2._layout.shape[1] == input._layout.shape[1],
        f"{name} : expect B.size(1) == {input._layout.shape[1]}",
    )
    _expect(tuple(scales._layout.shape) == (rows,), f"{name} : expect scales to be 1d tensor with size {rows}")
    _expect_same_dtype(input, scales)
    with no_grad():
        if input._layout.shape[0] <= FEW_ROWS:
            made = _few(_with_rows(input), mat2, contiguous(scales), 8)
        else:
            made = (mm(input.to(float32), mat2.to(float32).t()) * scales.to(float32)).to(input._layout.dtype)
    return recorded("aten::_weight_int8pack_mm", made, (input, scales))  # type: ignore[no-any-return]


def _convert_weight_to_int4pack_for_cpu(weight: Tensor, inner_k_tiles: int) -> Tensor:
    """Weights (n, k) of 0 ... 15 in int32 as bytes of two: (n, k / 2). n must divide by 16. inner_k_tiles is a matter of CUDA."""
    name = "_convert_weight_to_int4pack_cpu"
    _expect(weight._layout.dtype is int32, f"{name} : expect weight to be kInt.")
    _expect(weight._layout.ndim == 2, f"{name} : expect weight to be 2D tensor.")
    rows, deep = weight._layout.shape
    _expect(rows % 16 == 0, f"{name} : expect N to be dividable by 16")
    _expect(deep % 2 == 0, "_convert_weight_to_int4pack: expect K to be dividable by 2")
    return ((weight[:, 0::2] & 15) | ((weight[:, 1::2] & 15) << 4)).to(uint8)


def _weight_int4pack_mm_for_cpu(input: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor) -> Tensor:
    """input (m, k) times the transpose of packed weights mat2 (n, k / 2): (m, n), of the input's dtype.

    A number q of 0 ... 15 stands for (q - 8) * scale + zero. qScaleAndZeros: (k / qGroupSize, n, 2), scale and zero of each row
    for the columns of a group; qGroupSize: 32, 64, 128 or 256. RuntimeError for other dtypes and shapes.
    """
    name = "_weight_int4pack_mm_cpu"
    _float_operand(name, input)
    _expect(mat2._layout.dtype is uint8, f"{name} : expect B to be uint8 tensor.")
    _expect(input.is_contiguous(), f"{name} : expect A to be contiguous.")
    rows, deep = mat2._layout.shape[0], input._layout.shape[1]
    _expect(tuple(mat2._layout.shape) == (rows, deep // 2), f"{name} : expect B to have {deep // 2} columns")
    _expect(qGroupSize in _GROUPS, f"{name}: expect qGroupSize to be 32, 64, 128 or 256, got {qGroupSize}")
    _expect(rows % 16 == 0, f"Unsupported n block size: {rows}")
    _expect(deep % qGroupSize == 0, f"{name}: expect K to be divisible by qGroupSize, got K:{deep}, qGroupSize:{qGroupSize}")
    groups = qScaleAndZeros._layout.shape
    _expect(
        len(groups) == 3 and groups[1:] == (rows, 2) and groups[0] * qGroupSize == deep,
        f"{name}: expect qScaleAndZeros to be 3d tensor with sizes [:, {rows}, 2]",
    )
    _expect_same_dtype(input, qScaleAndZeros)
    packed, numbers = contiguous(mat2), contiguous(qScaleAndZeros)
    with no_grad():
        if input._layout.shape[0] <= FEW_ROWS:
            made = _few(input, packed, numbers, 4, qGroupSize)
        else:
            made = mm(input.to(float32), _widened(packed, numbers, qGroupSize).t()).to(input._layout.dtype)
    return recorded("aten::_weight_int4pack_mm_for_cpu", made, (input, qScaleAndZeros))  # type: ignore[no-any-return]


def _with_rows(x: Tensor) -> Tensor:
    return x if x._layout.strides[1] == 1 else contiguous(x)
