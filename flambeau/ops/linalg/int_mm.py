"""Products with integer weights, as libraries of quantized models call them: int8 by int8, and floats by int8 or packed int4.

torch._int_mm, torch._weight_int8pack_mm, torch._weight_int4pack_mm_for_cpu and the packing that the last one reads: two columns
in a byte, the first in the low half. Weights are widened and multiplied by ops.linalg.matmul. Loaded when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import bfloat16, float16, float32, int8, int16, int32, uint8
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.plan import Plan
from flambeau.codegen.products.matrix import Matrix
from flambeau.codegen.products.steps import Contraction
from flambeau.codegen.targets import lowered
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.matmul import mm

__all__ = ["_convert_weight_to_int4pack_for_cpu", "_int_mm", "_weight_int4pack_mm_for_cpu", "_weight_int8pack_mm"]

_plans: dict[Any, Callable] = register_cache({})
_GROUPS = (32, 64, 128, 256)


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise RuntimeError(words)


def _short(x: Tensor) -> str:
    """The dtype as C names it."""
    name = x._layout.dtype.name
    return {"float32": "float", "float64": "double", "int32": "int", "int64": "long"}.get(name, name)


def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of int8 matrices (m, k) (or uint8) and (k, n) in int32: (m, n). RuntimeError for other dtypes and shapes; `out`
    must have the result's.
    """
    name = "int_mm_out_cpu"
    for title, x in (("self", input), ("mat2", mat2)):
        _expect(x._layout.ndim == 2, f"{name}: Expected {title} to be of dimension 2 but got {x._layout.ndim}")
    (rows, deep), (other, columns) = input._layout.shape, mat2._layout.shape
    _expect(deep == other, f"{name}: self.size(1) needs to match mat2.size(0) but got {deep} and {other}")
    _expect(input._layout.dtype in (int8, uint8), f"{name}: Expected self dtype to be int8 or uint8 but got {_short(input)}")
    _expect(mat2._layout.dtype is int8, f"{name}: Expected mat2 dtype to be of type int8 but got {_short(mat2)}")
    if out is not None:
        _expect(out._layout.dtype is int32, f"{name}: Expected result dtype to be of type kInt but got {_short(out)}")
        _expect(out._layout.ndim == 2, f"{name}: Expected result to be of dimension 2 but got {out._layout.ndim}")
        for dim, size in enumerate((rows, columns)):
            _expect(
                out._layout.shape[dim] == size,
                f"{name}: Expected result.size({dim}) to be {size} but got {out._layout.shape[dim]}",
            )
    if input._layout.dtype is uint8:
        input, mat2 = input.to(int16), mat2.to(int16)
    made = _wide_product(input, mat2)
    return made if out is None else out.copy_(made)


def _wide_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices of one dtype in int32."""
    key = a._layout, b._layout
    launch = _plans.get(key)
    if launch is None:
        (m, k), n = a._layout.shape, b._layout.shape[1]
        out = Layout.contiguous((m, n), int32, a._layout.device)
        left, right = (Matrix(slot, (0, 0, *x._layout.strides)) for slot, x in enumerate((a, b), 1))
        step = Contraction(a._layout.dtype, m, n, k, left, right, Matrix(0, (0, 0, n, 1)), out=int32)
        launch = _plans[key] = lowered(Plan([step], [out], [*key], release=m * n * k >= RELEASE_FROM))
    return launch(None, a, b)


def _float_operand(name: str, x: Tensor) -> None:
    _expect(x._layout.dtype in (float32, float16, bfloat16), f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    _expect(x._layout.ndim == 2, f"{name} : expect A to be 2D tensor.")


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
    _expect(
        scales._layout.dtype is input._layout.dtype,
        f"expected scalar type {input._layout.dtype.scalar_name} but found {scales._layout.dtype.scalar_name}",
    )
    return (mm(input.to(float32), mat2.to(float32).t()) * scales.to(float32)).to(input._layout.dtype)


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
    groups = qScaleAndZeros._layout.shape
    _expect(
        len(groups) == 3 and groups[1:] == (rows, 2) and groups[0] * qGroupSize == deep,
        f"{name}: expect qScaleAndZeros to be 3d tensor with sizes [:, {rows}, 2]",
    )
    codes = NAMESPACE["stack"]([mat2 & 15, mat2 >> 4], -1).to(float32).reshape(rows, groups[0], qGroupSize)
    scale, zero = qScaleAndZeros.to(float32).transpose(0, 1).unbind(-1)
    weights = (codes - 8) * scale.unsqueeze(-1) + zero.unsqueeze(-1)
    return mm(input.to(float32), weights.reshape(rows, deep).t()).to(input._layout.dtype)
