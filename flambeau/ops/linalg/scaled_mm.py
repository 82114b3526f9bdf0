"""torch._scaled_mm: the product of float8 matrices with their scales, as libraries of quantized weights call it.

Stands on ops.linalg.matmul. The operands are widened to float32, multiplied, scaled and rounded once.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import FLOAT8, float32
from flambeau.core.operator.define import composite
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg.matmul import mm

_WANTED = """Invalid scaling configuration.
- For TensorWise scaling, a and b should be float8, scales should be float and singletons.
- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be ({rows}, 1) and scale_b should be \
(1, {columns}), and both should be contiguous.
"""


def _check(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        shapes = " and ".join("x".join(map(str, x.shape)) for x in (a, b))
        raise RuntimeError(f"mat_a and mat_b shapes cannot be multiplied ({shapes})")
    rows, columns = a.shape[0], b.shape[1]
    single = scale_a.numel() == scale_b.numel() == 1
    by_row = tuple(scale_a.shape) == (rows, 1) and tuple(scale_b.shape) == (1, columns)
    floats = scale_a.dtype is scale_b.dtype is float32
    if not (a.dtype in FLOAT8 and b.dtype in FLOAT8 and floats and (single or by_row)):
        given = ", ".join(
            f"{name}.dtype()={x.dtype}, {name}.shape={list(x.shape)}"
            for name, x in (("mat_a", a), ("scale_a", scale_a), ("mat_b", b), ("scale_b", scale_b))
        )
        raise ValueError(_WANTED.format(rows=rows, columns=columns) + f"Got {given}")


@composite(method=False)
def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """(input * scale_a) @ (mat2 * scale_b) + bias for float8 matrices (m, k) and (k, n).

    scale_a, scale_b: float32, one number each, or (m, 1) and (1, n). out_dtype: of the result (default: input's). scale_result
    and use_fast_accum have no effect on a CPU, as in PyTorch. ValueError for other scales or dtypes, RuntimeError for shapes
    that don't fit.
    """
    _check(input, mat2, scale_a, scale_b)
    result = mm(input.to(float32), mat2.to(float32)) * scale_a * scale_b
    if bias is not None:
        result = result + bias.to(float32)
    return result.to(input.dtype if out_dtype is None else out_dtype)
