"""torch._grouped_mm and nn.functional.grouped_mm: products of the parts of matrices, as mixtures of experts call them.

Stands on ops.linalg.matmul, in whose products the gradients are written, too.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from flambeau.base.dtype import bfloat16, float16, float32, int32
from flambeau.core.operator.define import composite
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known
from flambeau.ops.creation.factories import zeros
from flambeau.ops.linalg.matmul import bmm, mm
from flambeau.ops.views.cat import cat, stack
from flambeau.ops.views.split import split, unbind


def _check_rows_are_aligned(matrix: Tensor) -> None:
    """Rows (or columns, if those are contiguous) have to begin at multiples of 16 bytes."""
    rows, columns = matrix.stride(-2), matrix.stride(-1)
    if columns == 1 and rows >= max(1, matrix.shape[-1]):
        step = rows
    elif rows == 1 and columns >= max(1, matrix.shape[-2]):
        step = columns
    else:
        raise RuntimeError(f"Invalid strides/sizes, got {list(matrix.stride())} for strides and {list(matrix.shape)} for sizes")
    if step * matrix.dtype.itemsize % 16:
        raise RuntimeError("strides should be multiple of 16 bytes")


def _check(mat_a: Tensor, mat_b: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: Any) -> None:
    if mat_a.dtype not in (float32, bfloat16, float16):
        raise RuntimeError(f"Expected mat_a to be Float32, BFloat16 or Float16 matrix, got {mat_a.dtype.scalar_name}")
    if mat_b.dtype not in (float32, bfloat16, float16):
        raise RuntimeError(f"Expected mat_b to be Float32, BFloat16 or Float16 matrix, got {mat_b.dtype.scalar_name}")
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    flat = mat_a.dim() == 2 or mat_b.dim() == 2
    if not (mat_a.dim() == mat_b.dim() == 2) and mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    for matrix in (mat_a, mat_b):
        _check_rows_are_aligned(matrix)
    if flat != (offs is not None):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None:
        if offs.dim() != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype is not int32:
            raise RuntimeError("Offsets have to be int32")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    groups = {x.shape[0] for x in (mat_a, mat_b) if x.dim() == 3} | ({offs.shape[0]} if offs is not None else set())
    if len(groups) > 1:
        raise RuntimeError("matrix batch sizes have to match")
    if mat_a.dtype is not mat_b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {mat_a.dtype.scalar_name} != {mat_b.dtype.scalar_name}"
        )


def _parts(offs: Tensor, length: int) -> list[int]:
    """The lengths of the groups that end at the offsets, and of what is behind the last one; where that isn't known, the first
    has it all."""
    if not known(offs):
        return [length, *[0] * offs.shape[0]]
    ends = [0, *offs.tolist(), length]
    lengths = [end - begin for begin, end in pairwise(ends)]
    if min(lengths) < 0:
        raise RuntimeError(f"offsets have to ascend and be at most {length}, got {ends[1:-1]}")
    return lengths


@composite(method=False)
def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups: rows of `self` by a matrix each, matrices by columns of `mat2` each, or slices along what is summed.

    (m, k) and (g, k, n) give (m, n); (g, m, k) and (k, n) give (m, n), group by group of columns; (m, k) and (k, n) give
    (g, m, n); (g, m, k) and (g, k, n), without offs, are a batched product. offs: int32, where each group ends. What lies
    behind the last offset gives 0. float32, bfloat16 and float16; RuntimeError for other dtypes, and what doesn't fit.
    """
    _check(self, mat2, offs, bias, out_dtype)
    if offs is None:
        return bmm(self, mat2)
    if self.dim() == 2 and mat2.dim() == 3:
        lengths = _parts(offs, self.shape[0])
        made = [mm(rows, matrix) for rows, matrix in zip(split(self, lengths, 0), unbind(mat2, 0))]
        return cat([*made, _nothing(self, lengths[-1], mat2.shape[2])] if lengths[-1] else made, 0)
    if self.dim() == 3:
        lengths = _parts(offs, mat2.shape[1])
        made = [mm(matrix, columns) for matrix, columns in zip(unbind(self, 0), split(mat2, lengths, 1))]
        return cat([*made, _nothing(self, self.shape[1], lengths[-1])] if lengths[-1] else made, 1)
    lengths = _parts(offs, self.shape[1])
    if len(lengths) == 1:
        return zeros((0, self.shape[0], mat2.shape[1]), dtype=self.dtype, device=self._layout.device)
    return stack([mm(a, b) for a, b in zip(split(self, lengths, 1)[:-1], split(mat2, lengths, 0)[:-1])], 0)


def _nothing(like: Tensor, rows: int, columns: int) -> Tensor:
    return zeros((rows, columns), dtype=like.dtype, device=like._layout.device)


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """torch._grouped_mm: see there."""
    return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype)
