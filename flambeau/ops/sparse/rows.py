"""The elements of a matrix by rows, and the two products of it: with a dense matrix, and of dense ones at its places only.

`times` adds up rows of the dense matrix, weighted with the elements (the kernel of weighted bags, codegen.embedding.bags);
`chosen` multiplies pairs of rows of two dense matrices (codegen.embedding.chosen). Each is the other's gradient, so that
derivatives of every order are these two kernels, on the elements by rows or by columns; the order by columns is found once.
Stands on ops.nn.embedding_bag; used by products.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import bfloat16, float16, float32, float64, int64
from flambeau.base.layout import Layout
from flambeau.codegen.element_type import kind_of
from flambeau.codegen.embedding import chosen as kernels
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.codegen.targets import lowered
from flambeau.core.modes.modes import no_grad
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.indexing.gather_plans import INDEX_TYPES, plans
from flambeau.ops.nn.embedding_bag import UNIT, weighted_sums

_UNFIT = "the parts of a sparse matrix don't fit together, or an element lies outside of its shape"
FLOATS = (float32, float64, float16, bfloat16)


class Rows:
    """The elements of a matrix by rows: row r has those from bounds[r] up to bounds[r + 1].

    columns: of each element; width: how many columns there are; order: which of the tensor's elements each is, or None if
    they come in this order already.
    """

    __slots__ = ("_own", "_turned", "begins", "bounds", "columns", "order", "width")

    def __init__(self, bounds: Tensor, columns: Tensor, order: Tensor | None, width: int) -> None:
        if bounds._layout.dtype is not columns._layout.dtype:
            bounds, columns = bounds.to(int64), columns.to(int64)
        self.bounds, self.columns, self.order, self.width = bounds, columns, order, width
        self.begins = bounds[:-1]
        self._own: Tensor | None = None
        self._turned: Rows | None = None

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.bounds._layout.numel - 1

    @property
    def own(self) -> Tensor:
        """The row of each element."""
        if self._own is None:
            with no_grad():
                self._own = rows_of_bounds(self.bounds)
        return self._own

    @property
    def turned(self) -> Rows:
        """The elements of the transposed matrix by rows; its `order` is among these."""
        if self._turned is None:
            with no_grad():
                order = NAMESPACE["argsort"](self.columns, stable=True)
                made = Rows(
                    bounds_of(self.columns, self.width).to(self.bounds._layout.dtype),
                    self.own.index_select(0, order),
                    order,
                    self.count,
                )
                made._turned = Rows(self.bounds, self.columns, NAMESPACE["argsort"](order), self.width)
                made._turned._turned, self._turned = made, made
        return self._turned

    def entries(self, entries: Any) -> Any:
        """The values in this order."""
        return entries if self.order is None else entries.index_select(0, self.order)


def bounds_of(rows: Tensor, count: int) -> Tensor:
    """Where each of `count` rows begins, and the last ends, among elements that are sorted by their rows."""
    sizes = NAMESPACE["bincount"](rows, minlength=count)
    if sizes._layout.numel > count:
        raise RuntimeError(f"addmm: index out of row bound: {int(rows.max())} not between 1 and {count}")
    return NAMESPACE["cat"]([NAMESPACE["zeros"]((1,), dtype=int64), sizes.cumsum(0)])


def rows_of_bounds(bounds: Tensor) -> Tensor:
    """The row of each element."""
    sizes = bounds.diff()
    return NAMESPACE["repeat_interleave"](NAMESPACE["arange"](sizes._layout.numel, dtype=bounds._layout.dtype), sizes)


@operator(function=False, method=False, name="_sparse_rows_times")
def times(entries: Tensor, dense: Tensor, rows: Rows) -> Tensor:
    """The matrix with these elements, which are in order, times a dense matrix."""
    if not (rows.count and dense._layout.shape[1]):
        return NAMESPACE["zeros"]((rows.count, dense._layout.shape[1]), dtype=dense._layout.dtype)
    if entries._layout.numel != rows.columns._layout.numel:
        raise RuntimeError(_UNFIT)
    try:
        return weighted_sums(dense, rows.columns, rows.begins, entries)
    except KernelCheck:
        raise RuntimeError(
            f"addmm: index out of column bound: {int(rows.columns.max())} not between 1 and {dense._layout.shape[0]}"
        ) from None


@times.vjp
def _(g, entries, dense, rows, need):
    mine = chosen(g, dense, rows) if need["entries"] else None
    return mine, times(rows.turned.entries(entries), g, rows.turned) if need["dense"] else None


@operator(function=False, method=False, name="_sparse_rows_chosen")
def chosen(a: Tensor, b: Tensor, rows: Rows) -> Tensor:
    """The elements of a @ b.T at the places of the matrix, in order."""
    own, others = rows.own, rows.columns
    if own._layout.numel != others._layout.numel:
        raise RuntimeError(_UNFIT)
    a, b = (x if x._layout.strides[1] == 1 else contiguous(x) for x in (a, b))
    key = ("sparse_rows_chosen", a._layout, b._layout, own._layout, others._layout)
    launch = plans.get(key)
    if launch is None:
        layout, depth, count = a._layout, a._layout.shape[1], own._layout.numel
        address = kernels.chosen_kernel(kind_of(layout.dtype), INDEX_TYPES[own._layout.dtype])
        constants = [depth, layout.strides[0], b._layout.strides[0], layout.shape[0], b._layout.shape[0]]
        phase = Phase(address, count, max(1, UNIT // max(depth, 1)), constants)
        out = Layout.contiguous((count,), layout.dtype, layout.device)
        launch = plans[key] = lowered(Plan([phase], [out], list(key[1:]), release=count * depth >= RELEASE_FROM))
    try:
        return launch(None, a, b, own, others)
    except KernelCheck:
        raise RuntimeError(_UNFIT) from None


@chosen.vjp
def _(g, a, b, rows, need):
    mine = times(g, b, rows) if need["a"] else None
    return mine, times(rows.turned.entries(g), a, rows.turned) if need["b"] else None


def product(rows: Rows, entries: Any, dense: Tensor) -> Tensor:
    """The matrix with these elements (as its tensor has them) times a dense one, of any dtype."""
    entries = rows.entries(entries)
    if entries._layout.dtype in FLOATS:
        return times(entries, dense, rows)
    terms = dense.index_select(0, rows.columns) * entries.unsqueeze(1)
    made = NAMESPACE["zeros"]((rows.count, dense._layout.shape[1]), dtype=terms._layout.dtype)
    return made.index_add(0, rows.own, terms)
