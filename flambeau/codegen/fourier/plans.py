"""Plans of Fourier transforms of tensors along some of their dimensions.

The rows of the last transformed dimension are transformed from the input into the result; the others in place. The dimensions of
a result lie in memory as PyTorch's: those that are not transformed first, in order of the input's strides, then the others.
Stands on rows; used by ops.fft.transforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_strides
from flambeau.codegen.fourier.program import Axis, Source, Work
from flambeau.codegen.fourier.rows import columns, complex_rows, hermitian_rows, real_rows
from flambeau.codegen.plan import Plan
from flambeau.codegen.targets import lowered

_FIRST_OUT = 4  # slot of the output; the input's is the next


def _result(x: Layout, batch: Sequence[int], dims: Sequence[int], shape: Sequence[int], dtype: DType) -> Layout:
    strides, step = [0] * len(shape), 1
    for d in reversed([*batch, *dims]):
        strides[d], step = step, step * max(shape[d], 1)
    return Layout.of(tuple(shape), tuple(strides), dtype, x.device)


def _axes(x: Layout, y: Layout, dims: Sequence[int]) -> list[Axis]:
    """Dimensions that are not transformed, neighbours as one where they lie so."""
    made: list[Axis] = []
    for d in dims:
        size, x_step, y_step = x.shape[d], x.strides[d] * x.dtype.itemsize, y.strides[d] * y.dtype.itemsize
        if size == 1:
            continue
        if made and made[-1][1] == size * x_step and made[-1][2] == size * y_step:
            size, made[-1:] = size * made[-1][0], []
        made.append((size, x_step, y_step))
    return made


def _by_stride(dims: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Dimensions in the order in which they lie in memory; those that are made longer lie in order."""
    return sorted(dims, key=lambda d: -strides[d])


def fourier_plan(
    kind: str, x: Layout, dims: Sequence[int], n: int, direction: int, scale: float, window: Layout | None = None
) -> tuple[Callable, int]:
    """(launch(None, x[, window]) -> `scale` times the transform along dims, of n points along the last one; bytes of tables).

    kind: "complex" (real input counts as complex), "real" (the first n // 2 + 1 numbers of the last dimension) or "hermitian"
    (real numbers from those; one dimension). direction: 1 or -1, against the sign of i. Points that x lacks are zeros. window:
    one dimension, with which rows of real numbers are multiplied.
    """
    strides = x.strides if n <= x.shape[dims[-1]] or kind == "hermitian" else contiguous_strides(x.shape)
    order = _by_stride(dims, strides) if kind == "complex" else [*_by_stride(dims[:-1], strides), dims[-1]]
    last = order[-1]
    if last != dims[-1]:
        if n != x.shape[dims[-1]]:
            raise NotImplementedError("a transform along several dimensions of another size: resize the input first")
        n = x.shape[last]
    batch = _by_stride([d for d in range(x.ndim) if d not in dims], strides)
    shape = list(x.shape)
    shape[last] = n // 2 + 1 if kind == "real" else n
    dtype = x.dtype.to_real() if kind == "hermitian" else x.dtype if x.dtype.is_complex else x.dtype.to_complex()
    y = _result(x, batch, order, shape, dtype)
    inputs = [x] if window is None else [x, window]
    if not y.numel:
        return lowered(Plan([], [y], inputs)), 0
    work = Work("float" if x.dtype.to_real().name == "float32" else "double")
    source = Source(x.strides[last] * x.dtype.itemsize, x.shape[last], not x.dtype.is_complex, window is not None)
    rows = {"complex": complex_rows, "real": real_rows, "hermitian": hermitian_rows}[kind]
    rows(work, _axes(x, y, [*batch, *order[:-1]]), (_FIRST_OUT + 1, 0), (_FIRST_OUT, 0), source, n, direction, scale)
    for at, d in enumerate(order[:-1]):
        count = math.prod(shape[e] for e in order[at + 1 :])
        columns(work, _axes(y, y, [*batch, *order[:at]]), (_FIRST_OUT, 0), x.shape[d], count, direction)
    return work.plan(y, inputs)
