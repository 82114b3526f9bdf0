"""Operators that move places: transposing, selecting, indexing, joining. Their results share no memory of values' places.

Stands on conversions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.dtype import bool_, int64, promote_types
from flambeau.base.geometry import wrap_dim
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.conversions import copy_, replace, to_dense
from flambeau.ops.sparse.elementwise import conj
from flambeau.ops.sparse.places import by_columns, by_rows, dense_shape, rows_of_bounds
from flambeau.ops.sparse.tensor import SparseCompressed, SparseCoo, SparseTensor, compressed, coo, refused, renamed, rule

TURNED = {
    layouts.sparse_csr: layouts.sparse_csc,
    layouts.sparse_csc: layouts.sparse_csr,
    layouts.sparse_bsr: layouts.sparse_bsc,
    layouts.sparse_bsc: layouts.sparse_bsr,
}


@rule("transpose", "swapaxes", "swapdims")
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    ndim = x._layout.ndim
    dim0, dim1 = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    if isinstance(x, SparseCompressed):
        return _transpose_compressed(x, dim0, dim1)
    sparse = x._places._layout.shape[0]
    if dim0 == dim1:
        return x
    if dim0 >= sparse or dim1 >= sparse:
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {sparse}, d0: {dim0}, d1: {dim1}"
        )
    order = list(range(ndim))
    order[dim0], order[dim1] = dim1, dim0
    return renamed(_permuted(x, order), "TransposeBackward0")


def _permuted(x: SparseCoo, order: Sequence[int]) -> SparseCoo:
    sparse = x._places._layout.shape[0]
    places = NAMESPACE["stack"]([x._places[d] for d in order[:sparse]])
    entries = x._entries.permute(0, *[d - sparse + 1 for d in order[sparse:]])
    made = coo(places, entries.alias() if entries is x._entries else entries, [x._layout.shape[d] for d in order])
    if tuple(order[:2]) == (1, 0) and sparse == 2:  # what was derived of the one is good for the other
        made._kept = _Turned(x)
    return made


class _Turned(dict):
    """What is kept of a transposed matrix: its rows are the columns of the other."""

    def __init__(self, other: SparseCoo) -> None:
        super().__init__()
        self.other = other

    def get(self, name: str, default: Any = None) -> Any:
        """What was made of this tensor, or of the other one by the other name."""
        found = super().get(name, default)
        if found is None and name in ("rows", "columns"):
            own = (by_columns if name == "rows" else by_rows)(self.other)
            found = (0, own)
        return found


def _transpose_compressed(x: SparseCompressed, dim0: int, dim1: int) -> SparseCompressed:
    batch = x._bounds._layout.ndim - 1
    if dim0 == dim1:
        return x
    if {dim0, dim1} != {batch, batch + 1}:
        raise RuntimeError("transpose(): can only transpose the last two dimensions of a sparse compressed tensor")
    shape = list(x._layout.shape)
    shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
    entries = x._entries.transpose(-2, -1) if x.blocks else x._entries.alias()
    return renamed(compressed(x._bounds, x._others, entries, shape, TURNED[x.layout]), "TransposeBackward0")


@rule("t")
def t(x: Any) -> Any:
    """The transposed matrix."""
    if x._layout.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {x.sparse_dim()} sparse and "
            f"{x.dense_dim()} dense dimensions"
        )
    return x if x._layout.ndim < 2 else renamed(transpose(x, 0, 1), "TBackward0")


def _flipped(x: Any) -> Any:
    if isinstance(x, SparseCompressed):
        raise refused("as_strided", x)
    return permute(x, *reversed(range(x._layout.ndim)))


SparseTensor.T = property(_flipped, doc="The dimensions in reverse order.")
SparseTensor.mT = property(lambda x: transpose(x, -2, -1), doc="The last two dimensions exchanged.")
SparseTensor.mH = property(lambda x: conj(transpose(x, -2, -1)), doc="The last two dimensions exchanged, and conjugated.")
SparseTensor.H = property(lambda x: conj(transpose(x, 0, 1)), doc="The transposed conjugate.")
SparseTensor.real = property(lambda x: x.like(x._entries.real) if x.is_complex() else x)
SparseTensor.imag = property(lambda x: x.like(x._entries.imag))


@rule("t_")
def t_(x: Any) -> Any:
    """Transpose in place."""
    return replace(x, t(x))


@rule("transpose_")
def transpose_(x: Any, dim0: int, dim1: int) -> Any:
    """Exchange two dimensions in place."""
    return replace(x, transpose(x, dim0, dim1))


@rule("permute")
def permute(x: Any, *order: Any, dims: Any = None) -> Any:
    """The dimensions in another order; sparse ones stay in front of dense ones."""
    order = dims if dims is not None else order[0] if len(order) == 1 and isinstance(order[0], (tuple, list)) else order
    order = [wrap_dim(d, x._layout.ndim) for d in order]
    if isinstance(x, SparseCompressed):
        raise refused("permute", x)
    if len(order) != x._layout.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {x._layout.ndim} is not equal to len(dims) = {len(order)}"
        )
    sparse = x._places._layout.shape[0]
    if sorted(order) != list(range(x._layout.ndim)):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if any(d >= sparse for d in order[:sparse]):
        raise RuntimeError(
            "permute(sparse_coo): transitions between sparse and dense dimensions are not allowed.Found transitions at "
            + ", ".join(f"{d} -> {at}" for at, d in enumerate(order) if (at < sparse) != (d < sparse))
        )
    return renamed(_permuted(x, order), "PermuteBackward0")


@rule("unsqueeze")
def unsqueeze(x: Any, dim: int) -> Any:
    """A dimension of size 1 put in at `dim`."""
    if isinstance(x, SparseCompressed):
        raise RuntimeError(f"{_title(x)} tensors do not have strides")
    dim = wrap_dim(dim, x._layout.ndim + 1)
    sparse = x._places._layout.shape[0]
    shape = list(x._layout.shape)
    shape.insert(dim, 1)
    if dim > sparse:
        return renamed(coo(x._places, x._entries.unsqueeze(dim - sparse + 1), shape, x._ordered), "UnsqueezeBackward0")
    none = NAMESPACE["zeros"]((1, x._places._layout.shape[1]), dtype=int64)
    places = NAMESPACE["cat"]([x._places[:dim], none, x._places[dim:]])
    return renamed(coo(places, x._entries.alias(), shape, x._ordered), "UnsqueezeBackward0")


def _title(x: SparseCompressed) -> str:
    return "Sparse " + str(x.layout).rpartition("_")[2].upper()


@rule("select", "select_copy")
def select(x: Any, dim: int, index: int) -> Any:
    """The slice at `index` along a dimension; dense if that was the last sparse one."""
    ndim, shape = x._layout.ndim, x._layout.shape
    if not ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, ndim)
    size, index = shape[dim], int(index)
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    index += size * (index < 0)
    if isinstance(x, SparseCompressed):
        return _select_compressed(x, dim, index)
    sparse = x._places._layout.shape[0]
    rest = [*shape[:dim], *shape[dim + 1 :]]
    if dim >= sparse:
        return renamed(coo(x._places, x._entries.select(dim - sparse + 1, index), rest, x._ordered), "SelectBackward0")
    chosen = NAMESPACE["nonzero"](x._places[dim].eq(index)).reshape(-1)
    entries = x._entries.index_select(0, chosen)
    if sparse == 1:
        total = entries.any(0) if entries._layout.dtype is bool_ else entries.sum(0, dtype=entries._layout.dtype)
        return renamed(total, "SelectBackward0")
    others = [d for d in range(sparse) if d != dim]
    places = x._places.index_select(1, chosen).index_select(0, NAMESPACE["tensor"](others))
    return renamed(coo(places, entries, rest, x._ordered), "SelectBackward0")


def _select_compressed(x: SparseCompressed, dim: int, index: int) -> Any:
    batch = x._bounds._layout.ndim - 1
    shape = [*x._layout.shape[:dim], *x._layout.shape[dim + 1 :]]
    if dim < batch:
        return renamed(
            compressed(
                x._bounds.select(dim, index), x._others.select(dim, index), x._entries.select(dim, index), shape, x.layout
            ),
            "SelectBackward0",
        )
    if batch:
        raise RuntimeError("select(): selecting sparse dimensions is not supported for batched sparse compressed tensors.")
    if x.blocks:
        raise refused("select", x)
    if dim >= 2:
        return compressed(x._bounds, x._others, x._entries.select(dim - 1, index), shape, x.layout)
    if x.by_rows == (dim == 0):
        low, high = int(x._bounds[index]), int(x._bounds[index + 1])
        return renamed(coo(x._others[low:high].reshape(1, -1).to(int64), x._entries[low:high], shape, True), "SelectBackward0")
    chosen = NAMESPACE["nonzero"](x._others.eq(index)).reshape(-1)
    places = rows_of_bounds(x._bounds).index_select(0, chosen).reshape(1, -1).to(int64)
    return renamed(coo(places, x._entries.index_select(0, chosen), shape, True), "SelectBackward0")


@rule("unbind")
def unbind(x: Any, dim: int = 0) -> tuple[Any, ...]:
    """The slices along a dimension."""
    return tuple(select(x, dim, at) for at in range(x._layout.shape[wrap_dim(dim, x._layout.ndim)]))


SparseTensor.__iter__ = lambda x: iter(unbind(x))


@rule("__getitem__")
def getitem(x: Any, key: Any) -> Any:
    """x[key] for integers, full slices, None and an ellipsis; NotImplementedError for others, as in PyTorch."""
    items = key if isinstance(key, tuple) else (key,)
    count = sum(1 for item in items if item is not None and item is not Ellipsis)
    if count > x._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x._layout.ndim}")
    dim, whole = 0, True
    for item in items:
        if item is None:
            x, dim = unsqueeze(x, dim), dim + 1
        elif item is Ellipsis:
            dim += x._layout.ndim - dim - (count - dim)
        elif isinstance(item, slice):
            size = x._layout.shape[dim]
            if item.indices(size) != (0, size, 1):
                if isinstance(x, SparseCompressed):
                    raise RuntimeError(f"{_title(x)} tensors do not have strides")
                raise refused("as_strided", x)
            dim += 1
        elif isinstance(item, Tensor) and (item._layout.ndim or item._layout.dtype.is_floating_point):
            raise refused("__getitem__", x)
        elif not isinstance(item, bool) and hasattr(item, "__index__"):
            x, whole = (select(x, dim, item) if isinstance(x, SparseTensor) else x.select(dim, int(item))), False
        else:
            raise refused("__getitem__", x)
    if whole and None not in items:
        return renamed(x.like(x._entries.alias()), "AliasBackward0")
    return x


@rule("__setitem__")
def setitem(x: Any, key: Any, value: Any) -> None:
    """TypeError where a sparse tensor is written to, RuntimeError where it is written to a dense one."""
    if isinstance(x, SparseTensor):
        raise TypeError("Cannot assign to a sparse tensor")
    copy_(x, value)


@rule("index_select")
def index_select(x: Any, dim: int, index: Tensor) -> Any:
    """The slices along a dimension at these positions, in their order and as often as they come."""
    if not isinstance(x, SparseCoo):
        raise refused("index_select", x)
    if index._layout.ndim != 1 or index._layout.dtype is not int64:
        raise IndexError("index_select() argument index must be 1-D long-tensor.")
    dim = wrap_dim(dim, x._layout.ndim)
    size, count = x._layout.shape[dim], index._layout.numel
    shape = [*x._layout.shape[:dim], count, *x._layout.shape[dim + 1 :]]
    if count:
        low, high = int(index.min()), int(index.max())
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexError(
                f"index_select(): index contains {wrong} that is out of range for tensor of size "
                f"{list(x._layout.shape)} at dimension {dim}"
            )
        if low < 0:
            index = NAMESPACE["where"](index < 0, index + size, index)
    sparse = x._places._layout.shape[0]
    if dim >= sparse:
        return renamed(
            coo(x._places, x._entries.index_select(dim - sparse + 1, index), shape, x._ordered), "IndexSelectBackward0"
        )
    # the elements by their position along the dimension, and for each wanted position as many as there are
    order = NAMESPACE["argsort"](x._places[dim], stable=True)
    sizes = NAMESPACE["bincount"](x._places[dim], minlength=size)
    begins = sizes.cumsum(0) - sizes
    wanted = sizes.index_select(0, index)
    owner = NAMESPACE["repeat_interleave"](NAMESPACE["arange"](count), wanted)
    within = NAMESPACE["arange"](owner._layout.numel) - (wanted.cumsum(0) - wanted).index_select(0, owner)
    chosen = order.index_select(0, begins.index_select(0, index).index_select(0, owner) + within)
    places = x._places.index_select(1, chosen)
    places = NAMESPACE["cat"]([places[:dim], owner.reshape(1, -1), places[dim + 1 :]])
    return renamed(coo(places, x._entries.index_select(0, chosen), shape), "IndexSelectBackward0")


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    """COO tensors one after the other along a dimension."""
    for position, x in enumerate(tensors):
        if not isinstance(x, SparseTensor):
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {position}.")
        if isinstance(x, SparseCompressed):
            raise RuntimeError(f"{_title(x)} tensors do not have is_contiguous")
    first = tensors[0]
    dim, sparse = wrap_dim(dim, first._layout.ndim), first._places._layout.shape[0]
    for position, x in enumerate(tensors[1:], 1):
        if x._places._layout.shape[0] != sparse or x._layout.ndim != first._layout.ndim:
            raise RuntimeError(
                "All tensors must have the same shape and dimensions: got different sparse or dense dimensions "
                f"at position {position}"
            )
        if any(a != b for d, (a, b) in enumerate(zip(first._layout.shape, x._layout.shape)) if d != dim):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first._layout.shape)} (except in the concatenating "
                f"dimension), but found shape: {list(x._layout.shape)}"
            )
    shape = list(first._layout.shape)
    shape[dim] = sum(x._layout.shape[dim] for x in tensors)
    entries = []
    places = []
    before = 0
    for x in tensors:
        values = x._entries
        if dim < sparse:
            shift = NAMESPACE["zeros"]((sparse, 1), dtype=int64)
            shift[dim] = before
            places.append(x._places + shift)
        else:
            places.append(x._places)
            own = dense_shape(x)
            at = dim - sparse
            left, right = ((*own[:at], n, *own[at + 1 :]) for n in (before, shape[dim] - before - own[at]))
            values = NAMESPACE["cat"](
                [
                    NAMESPACE["zeros"]((values._layout.shape[0], *left), dtype=values._layout.dtype),
                    values,
                    NAMESPACE["zeros"]((values._layout.shape[0], *right), dtype=values._layout.dtype),
                ],
                at + 1,
            )
        entries.append(values)
        before += x._layout.shape[dim]
    common = first._layout.dtype
    for x in tensors:
        common = promote_types(common, x._layout.dtype)
    values = NAMESPACE["cat"]([values.to(common) for values in entries])
    ordered = dim == 0 and all(x._ordered for x in tensors)
    return renamed(coo(NAMESPACE["cat"](places, 1), values, shape, ordered), "CatBackward0")


@rule("stack")
def stack(tensors: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    """COO tensors along a new dimension."""
    return renamed(cat([unsqueeze(x, dim) if isinstance(x, SparseTensor) else x for x in tensors], dim), "StackBackward0")


@rule("hstack")
def hstack(tensors: Sequence[Any], *, out: Any = None) -> Any:
    """COO tensors beside each other."""
    return cat(tensors, 1 if tensors[0]._layout.ndim > 1 else 0)


@rule("vstack", "row_stack")
def vstack(tensors: Sequence[Any], *, out: Any = None) -> Any:
    """COO tensors below each other."""
    return cat([x if x._layout.ndim > 1 else unsqueeze(x, 0) for x in tensors], 0)


def _unsupported(name: str, words: str) -> None:
    @rule(name)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(words)


for _name in ("expand", "expand_as", "broadcast_to", "repeat"):
    _unsupported(_name, "expand is unsupported for Sparse tensors")
for _name in ("reshape", "flatten", "ravel", "unflatten", "reshape_as"):
    _unsupported(_name, "reshape is not implemented for sparse tensors")


@rule("contiguous")
def contiguous(x: Any, memory_format: Any = None) -> Any:
    """RuntimeError: sparse tensors have no memory format."""
    raise RuntimeError("unsupported memory format option Contiguous")


__all__ = ["cat", "index_select", "permute", "select", "stack", "t", "to_dense", "transpose", "unsqueeze"]
