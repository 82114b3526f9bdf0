"""Batches of matrices as the kernels of factorizations take them, and the plans kept for each signature.

Stands on codegen.runtime.launch; ops.linalg.factorization_plans makes the plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import int32
from flambeau.base.errors import LinAlgError
from flambeau.base.layout import Layout, contiguous_format, register_cache
from flambeau.codegen.plan import Plan
from flambeau.codegen.runtime import launch
from flambeau.codegen.targets import lowered
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.create import array_of
from flambeau.core.tensor.lazy_conjugate import resolved
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known

plans: dict[Any, Callable] = register_cache({})
RELEASE_FROM = 1 << 18  # multiplications from which other Python threads run meanwhile


def batch_of(layout: Layout) -> tuple[int, int] | None:
    """(number, stride) of the matrices; None unless they lie evenly, in order."""
    shape, strides = layout.shape[:-2], layout.strides[:-2]
    if 0 in shape:
        return 0, 0
    count, stride, expected = 1, 0, None
    for size, step in zip(reversed(shape), reversed(strides)):
        if size != 1:
            if expected is None:
                stride = step
            elif step != expected:
                return None
            expected = step * size
        count *= size
    return count, stride


def even_batch(layout: Layout) -> tuple[int, int]:
    """(number, stride) of matrices that are known to lie evenly: `evenly` gave them, or they are a fresh result's."""
    even = batch_of(layout)
    assert even is not None
    return even


def evenly(x: Tensor) -> Tensor:
    """x, or a copy of it whose matrices lie evenly, and as they are meant."""
    x = resolved(x)
    return x if batch_of(x._layout) is not None else NAMESPACE["clone"](x, memory_format=contiguous_format)


def expanded(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """x with these batch dimensions, its matrices evenly."""
    shape = x._layout.shape
    return evenly(x if tuple(shape[:-2]) == tuple(batch) else x.expand(*batch, *shape[-2:]))


def in_columns(shape: tuple[int, ...], like: Layout) -> Layout:
    """The layout of a fresh batch of matrices each of whose columns is in one piece, as LAPACK leaves them."""
    *batch, m, n = shape
    strides, size = [], max(m, 1) * max(n, 1)
    for extent in reversed(batch):
        strides.append(size)
        size *= max(extent, 1)
    return Layout.of(tuple(shape), (*reversed(strides), 1, max(m, 1)), like.dtype, like.device)


def laid_in_columns(x: Tensor) -> Tensor:
    """A copy of x each of whose matrices' columns is in one piece."""
    layout = in_columns(x._layout.shape, x._layout)
    return NAMESPACE["empty_strided"](layout.shape, layout.strides, dtype=layout.dtype, device=layout.device).copy_(x)


def plain(shape: tuple[int, ...], like: Layout, dtype: DType | None = None) -> Layout:
    """The layout of a fresh contiguous tensor."""
    return Layout.contiguous(tuple(shape), dtype or like.dtype, like.device)


def infos(like: Layout) -> Layout:
    """The layout of LAPACK's info for a batch of matrices."""
    return plain(like.shape[:-2], like, int32)


def keep(key: Any, phases: list, outputs: list[Layout], inputs: list[Layout], scratch: int, work: float) -> Callable:
    """Make a plan, and keep it under `key`."""
    made = plans[key] = lowered(Plan(phases, outputs, inputs, "", scratch, release=work >= RELEASE_FROM))
    return made


def failed(info: Tensor) -> bool:
    """Whether some info is not zero."""
    if not known(info):
        return False
    if info._layout.numel == 1:
        return launch.readers["int32"](info) != 0
    return bool(array_of(info).any())


def refused(name: str, info: Tensor, words: str, kind: type[RuntimeError] = LinAlgError) -> RuntimeError:
    """The error for the first batch element whose info is not zero; `words` has its place for the info."""
    flat = array_of(info).reshape(-1)
    at = int(flat.nonzero()[0][0])
    place = f"(Batch element {at}): " if info._layout.ndim else ""
    return kind(f"{name}: {place}{words.format(int(flat[at]))}")


def batches(shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-2])
