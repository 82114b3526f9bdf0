"""torch._int_mm: the product of integer matrices. Stands on codegen.products; loaded when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import int8, int16, int32, uint8
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.plan import Plan
from flambeau.codegen.products.matrix import Matrix
from flambeau.codegen.products.steps import Contraction
from flambeau.codegen.targets import lowered
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor.tensor import Tensor

__all__ = ["_int_mm"]

_plans: dict[Any, Callable] = register_cache({})


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
