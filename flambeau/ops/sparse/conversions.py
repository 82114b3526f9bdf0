"""From one layout to another: `to_dense`, `coalesce`, `to_sparse` and its relatives, `sparse_mask`; dtypes and copies.

Each is a step of the graph on values: a gather, or a sum into places. Stands on tensor and places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.dtype import bool_, int32, int64
from flambeau.core.autograd.inplace import owned
from flambeau.core.modes.modes import local, no_grad
from flambeau.core.operator.arguments import no_combination
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.sparse.compression import COMPRESSED, check_conversion, compress, unbatched
from flambeau.ops.sparse.places import (
    added_up,
    count_of,
    dense_shape,
    kept,
    keys,
    keys_of,
    places_of,
    places_of_values,
    rows_of_bounds,
)
from flambeau.ops.sparse.tensor import (
    NAMES,
    SparseCompressed,
    SparseCoo,
    SparseTensor,
    compressed,
    coo,
    layout_of,
    refused,
    renamed,
    rule,
)

# ---------------------------------------------------------------- in order, without repetition


@rule("coalesce")
def coalesce(x: Any) -> SparseCoo:
    """The tensor with its places in order and values at the same place added up; the tensor itself if they are so."""
    if not isinstance(x, SparseCoo):
        raise RuntimeError(f"coalesce expected sparse coordinate tensor layout but got {NAMES[layout_of(x)]}")
    if x._ordered:
        return x
    places, at, derived = _distinct(x)
    entries = renamed(added_up(x._entries, at, places._layout.shape[1]), "CoalesceBackward0")
    made = coo(places, entries, x._layout.shape, True)
    made._kept = derived
    return made


def _distinct(x: SparseCoo) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The places in order and without repetition, which of them each value has, and what is derived from them."""

    def distinct() -> tuple[Tensor, Tensor, dict[str, Any]]:
        found, at = NAMESPACE["unique"](keys(x), return_inverse=True)
        return places_of(found, x._layout.shape[: x._places._layout.shape[0]]), at, {}

    return kept(x, "distinct", distinct)


@rule("_each_place_once")
def each_place_once(x: SparseCoo, entries: Tensor) -> SparseCoo:
    """The tensor that has one of the `entries` at each place of `x`, those of one place being equal."""
    places, at, _ = _distinct(x)
    count, given = places._layout.shape[1], at._layout.shape[0]
    if count == given:
        return x.like(entries)
    one = NAMESPACE["zeros"]((count,), dtype=int64).index_copy(0, at, NAMESPACE["arange"](given))
    return coo(places, entries.index_select(0, one), x._layout.shape)


@rule("_coalesced_")
def _coalesced_(x: SparseCoo, coalesced: bool) -> SparseCoo:
    """Say whether the places are in order."""
    x._ordered = bool(coalesced)
    return x


# ---------------------------------------------------------------- dense


@rule("to_dense")
def to_dense(x: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The dense tensor: zero where there is no value."""
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return renamed(owned(_dense(x)), "ToDenseBackward0")


def _dense(x: Any) -> Tensor:
    if isinstance(x, SparseCoo):
        count = count_of(x._layout.shape[: x._places._layout.shape[0]])
        return added_up(x._entries, keys(x), count).reshape(x._layout.shape)
    batch = x._bounds._layout.shape[:-1]
    if batch:
        parts = [_dense(part) for part in unbatched(x)]
        return NAMESPACE["stack"](parts).reshape(x._layout.shape)
    places, blocks = places_of_values(x), x.blocks
    if not blocks:
        return added_up(x._entries, keys_of(places, x._layout.shape[:2]), count_of(x._layout.shape[:2])).reshape(x._layout.shape)
    high, wide = (n // b for n, b in zip(x._layout.shape, blocks))
    tiles = added_up(x._entries, keys_of(places, (high, wide)), high * wide)
    tiles = tiles.reshape((high, wide, *tiles._layout.shape[1:]))
    return tiles.transpose(1, 2).reshape(x._layout.shape)


def dense_method(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """to_dense of a tensor that is dense: itself (in another dtype, if one is given)."""
    return self if dtype is None else self.to(dtype)


# ---------------------------------------------------------------- sparse


@rule("to_sparse")
def to_sparse(
    x: Any, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> Any:
    """The tensor in a sparse layout (COO by default), with the elements that aren't zero.

    sparse_dim: how many dimensions, from the first, have places (default: all); slices along the others are values.
    blocksize: of BSR and BSC; dense_dim: how many last dimensions are part of a value, of compressed layouts.
    """
    if sparse_dim is not None and not (layout is None and blocksize is None and dense_dim is None):
        raise no_combination("to_sparse", (sparse_dim,))
    target = layouts.sparse_coo if layout is None else layout
    own = layout_of(x)
    if target is layouts.strided:
        return x if own is target else renamed(to_dense(x), "ToDenseBackward0")
    if target in COMPRESSED:
        return compress(x, target, blocksize, dense_dim)
    if own is not layouts.strided:
        check_conversion(x, target, blocksize, dense_dim)
    if isinstance(x, SparseCoo):
        if sparse_dim is not None and sparse_dim != x._places._layout.shape[0]:
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported"
            )
        return x
    if isinstance(x, SparseCompressed):
        if sparse_dim not in (None, 2):
            raise RuntimeError(
                f"sparse_compressed_to_sparse: conversion from {NAMES[own]} to Sparse with sparse_dim argument "
                "!=2 is not supported"
            )
        return renamed(_uncompressed(x), "ToSparseBackward1")
    if not known(x):
        raise needs_values(x, "_to_sparse")
    return renamed(
        _sparse(x, x._layout.ndim if sparse_dim is None else sparse_dim),
        "ToSparseBackward0" if sparse_dim is not None else "ToSparseBackward1",
    )


@rule("to_sparse_coo")
def to_sparse_coo(x: Any) -> Any:
    """The tensor in coordinate format."""
    return to_sparse(x)


@rule("to_sparse_csr")
def to_sparse_csr(x: Any, dense_dim: int | None = None) -> Any:
    """The matrices in compressed rows."""
    return compress(x, layouts.sparse_csr, None, dense_dim, "_csr")


@rule("to_sparse_csc")
def to_sparse_csc(x: Any, dense_dim: int | None = None) -> Any:
    """The matrices in compressed columns."""
    return compress(x, layouts.sparse_csc, None, dense_dim, "_csc")


@rule("to_sparse_bsr")
def to_sparse_bsr(x: Any, blocksize: Sequence[int], dense_dim: int | None = None) -> Any:
    """The matrices in compressed rows of blocks."""
    return compress(x, layouts.sparse_bsr, blocksize, dense_dim, "_bsr")


@rule("to_sparse_bsc")
def to_sparse_bsc(x: Any, blocksize: Sequence[int], dense_dim: int | None = None) -> Any:
    """The matrices in compressed columns of blocks."""
    return compress(x, layouts.sparse_bsc, blocksize, dense_dim, "_bsc")


def _sparse(x: Tensor, sparse_dim: int) -> SparseCoo:
    shape, ndim = x._layout.shape, x._layout.ndim
    if not 0 <= sparse_dim <= ndim:
        raise RuntimeError(f"dense_to_sparse: sparse_dim argument must be in [0,{ndim}] range, but {sparse_dim} is given")
    if ndim and not sparse_dim:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not ndim:
        entries = x.reshape(1)
        entries = entries if x.detach().ne(0).item() else entries[:0]
        return coo(NAMESPACE["zeros"]((0, entries._layout.numel), dtype=int64), entries, shape, True)
    with no_grad():
        present = x.ne(0)
        if sparse_dim < ndim:
            present = present.flatten(sparse_dim).any(-1)
        places = NAMESPACE["nonzero"](present).t().contiguous()
    return coo(places, x[tuple(places.unbind(0))], shape, True)


def _uncompressed(x: SparseCompressed) -> SparseCoo:
    """The elements in coordinate format, in the order in which they are stored, zeros in blocks too."""
    depth, shape, blocks = x._bounds._layout.ndim - 1, x._layout.shape, x.blocks
    places = NAMESPACE["cat"]([_placed(part, at, shape[:depth]) for at, part in enumerate(unbatched(x) if depth else [x])], 1)
    entries = x._entries.flatten(0, depth + (2 if blocks else 0)) if depth or blocks else x._entries.alias()
    return coo(places, entries, shape, x.by_rows and not blocks)


def _placed(x: SparseCompressed, at: int, batch: Sequence[int]) -> Tensor:
    """(dimensions, count): where the elements of a matrix, the `at`-th of a batch, lie."""
    places = places_of_values(x)
    if x.blocks:
        high, wide = x.blocks
        count = places._layout.shape[1]
        grid = [NAMESPACE["arange"](n).reshape(shape) for n, shape in ((high, (1, -1, 1)), (wide, (1, 1, -1)))]
        lines = [(places[d] * n).reshape(count, 1, 1) + grid[d] for d, n in enumerate((high, wide))]
        places = NAMESPACE["stack"]([line.expand(count, high, wide).reshape(count * high * wide) for line in lines])
    if not batch:
        return places
    own = places_of(NAMESPACE["full"]((places._layout.shape[1],), at), batch)
    return NAMESPACE["cat"]([own, places])


# ---------------------------------------------------------------- the elements at given places


@rule("sparse_mask")
def sparse_mask(x: Any, mask: Any) -> Any:
    """The elements of x, dense or sparse, at the places of a sparse tensor of its shape: that one with other values."""
    if not isinstance(mask, SparseTensor):
        raise refused("sparse_mask", mask)
    if x._layout.shape != mask._layout.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(x._layout.shape)} but mask has "
            f"size {list(mask._layout.shape)}"
        )
    if isinstance(mask, SparseCompressed):
        if isinstance(x, SparseCompressed) and x._others is mask._others:
            return mask.like(x._entries)
        return renamed(mask.like(at_places(x, mask)), "SparseMaskBackward0")
    return renamed(mask.like(at_places(x, mask)), "SparseMaskBackward0")


def at_places(x: Any, mask: Any) -> Tensor:
    """The elements of x, dense or sparse, at the places of a sparse tensor, as its values lie."""
    if isinstance(x, SparseCompressed) or (isinstance(mask, SparseCompressed) and (mask.blocks or mask._bounds._layout.ndim > 1)):
        x = to_dense(x) if isinstance(x, SparseTensor) else x
    if isinstance(mask, SparseCompressed) and (mask.blocks or mask._bounds._layout.ndim > 1):
        return _at_blocks(x, mask)
    places = places_of_values(mask)
    if isinstance(x, SparseCoo):
        x = coalesce(x)
        found, there = positions(keys(x), keys_of(places, x._layout.shape[: places._layout.shape[0]]))
        if not x._entries._layout.shape[0]:
            return NAMESPACE["zeros"](mask._entries._layout.shape, dtype=x._entries._layout.dtype)
        chosen = x._entries.index_select(0, found)
        return NAMESPACE["where"](there.reshape((-1,) + (1,) * (chosen._layout.ndim - 1)), chosen, 0)
    if not places._layout.shape[0]:  # all dimensions are dense
        return x.unsqueeze(0).expand(mask._entries._layout.shape).clone()
    return x[tuple(places.unbind(0))]


def _at_blocks(x: Tensor, mask: SparseCompressed) -> Tensor:
    depth, blocks = mask._bounds._layout.ndim - 1, mask.blocks
    if depth:
        parts = [
            _at_blocks(part, m) if m.blocks else at_places(part, m)
            for part, m in zip(x.flatten(0, depth - 1).unbind(0), unbatched(mask))
        ]
        return NAMESPACE["stack"](parts).reshape(mask._entries._layout.shape)
    shape = x._layout.shape
    high, wide = blocks
    tiles = x.reshape((shape[0] // high, high, shape[1] // wide, wide, *shape[2:])).transpose(1, 2)
    rows, columns = places_of_values(mask).unbind(0)
    return tiles[rows, columns]


def positions(among: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Where the wanted numbers are in a sorted vector, and which of them are in it."""
    with no_grad():
        count = among._layout.numel
        if not count:
            return NAMESPACE["zeros_like"](wanted), NAMESPACE["zeros"](wanted._layout.shape, dtype=bool_)
        found = NAMESPACE["searchsorted"](among, wanted).clamp(max=count - 1)
        return found, among.index_select(0, found).eq(wanted)


# ---------------------------------------------------------------- dtypes and copies


@rule("to")
def to(x: SparseTensor, *args: Any, **kwargs: Any) -> Any:
    """The tensor with its values in another dtype; itself if they are of that."""
    other = args[0] if args else kwargs.get("other")
    if isinstance(other, SparseTensor):
        args, kwargs = (other._layout.dtype, *args[1:]), {k: v for k, v in kwargs.items() if k != "other"}
    elif isinstance(other, Tensor):
        raise RuntimeError(
            "to(options) doesn't support converting to a different layout, but got self.layout being "
            f"{NAMES[x.layout]} and options.layout set as Strided"
        )
    made = x._entries.to(*args, **kwargs)
    return x if made is x._entries else x.like(made)


def _converting(name: str) -> None:
    @rule(name)
    def convert(x: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        made = getattr(x._entries, name)(*args, **kwargs)
        return x if made is x._entries else x.like(made)


for _name in "double float half bfloat16 long int short char byte bool cfloat cdouble chalf cpu cuda".split():
    _converting(_name)


@rule("type_as")
def type_as(x: SparseTensor, other: Tensor) -> Any:
    """The values in the dtype of another sparse tensor."""
    return to(x, other) if isinstance(x, SparseTensor) else x.to(other._layout.dtype)


@rule("clone")
def clone(x: SparseTensor, *, memory_format: Any = None) -> Any:
    """A copy of places and values."""
    if memory_format is not None:
        title = {"preserve_format": "Preserve", "contiguous_format": "Contiguous"}.get(
            str(memory_format)[6:], str(memory_format)[6:]
        )
        raise RuntimeError(f"unsupported memory format option {title}")
    return copied_places(x).like(x._entries.clone())


def copied_places(x: Any) -> Any:
    """The tensor with a copy of its places, which have memory of their own."""
    if isinstance(x, SparseCoo):
        return coo(x._places.clone(), x._entries, x._layout.shape, x._ordered)
    return compressed(x._bounds.clone(), x._others.clone(), x._entries, x._layout.shape, x.layout)


@rule("copy_")
def copy_(x: Any, source: Any, non_blocking: bool = False) -> Any:
    """Take on the places and values of another sparse tensor, in one's own dtype."""
    if isinstance(x, SparseCompressed) or isinstance(source, SparseCompressed):
        if layout_of(x) is not layout_of(source):
            raise RuntimeError(
                "torch.copy_: copy of sparse compressed tensors having different layouts is not supported. self layout is "
                f"{NAMES[layout_of(x)]} and src layout is {NAMES[layout_of(source)]}"
            )
        _check_places(x, source)
        if x._nnz() != source._nnz():
            raise RuntimeError(
                "torch.copy_: only sparse compressed tensors with the same number of specified elements are supported."
            )
    elif not (isinstance(x, SparseTensor) and isinstance(source, SparseTensor)):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{x.type()} and src type = {source.type()}"
        )
    return replace(x, copied_places(source).like(source._entries.clone().to(x._layout.dtype)))


def _check_places(x: Any, source: Any) -> None:
    """RuntimeError unless two tensors of a compressed layout have the same shape and blocks."""
    batch = x._layout.ndim - source._layout.ndim
    along = x._bounds._layout.ndim - 1 + (not x.by_rows)
    own, other = x._layout.shape, source._layout.shape
    if batch:
        raise NotImplementedError(
            f"copy_() of {source._layout.ndim} dimensions to {x._layout.ndim} is not implemented in "
            "flambeau for sparse compressed tensors; repeat the source's places first"
        )
    if own[along] != other[along]:
        raise RuntimeError(
            f"torch.copy_: expected shapes of self and src to match along dimension {along} for {NAMES[x.layout]} layout but the "
            f"corresponding dimensions of self and src are {own[along]} and {other[along]}, respectively."
        )
    for dim, (one, two) in enumerate(zip(own, other)):
        if one != two:
            raise RuntimeError(
                f"The size of tensor a ({one}) must match the size of tensor b ({two}) at non-singleton dimension {dim}"
            )
    if x.blocks != source.blocks:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different block sizes is not supported. self and src block "
            f"sizes are {list(x.blocks)} and {list(source.blocks)}, respectively."
        )


def replace(x: Any, other: Any) -> Any:
    """Write another sparse tensor of this layout over x, in place. RuntimeError for a leaf that wants a gradient."""
    own = x._entries
    if own._node is not None and own.is_leaf:
        if local.grad:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        if own._layout is other._entries._layout and x._kept is other._kept:
            own.copy_(other._entries)
            return x
        gradient, entries = own.grad, other._entries.detach()
        entries.requires_grad_()
        if gradient is not None and gradient._layout is entries._layout:
            entries.grad = gradient
        other._entries = entries
    x.become(other)
    x._storage.writes += 1
    return x


def empty_like_shape(shape: Sequence[int], sparse_dim: int, dense: Sequence[int], dtype: Any) -> SparseCoo:
    """A COO tensor without elements."""
    return coo(
        NAMESPACE["zeros"]((sparse_dim, 0), dtype=int64), NAMESPACE["zeros"]((0, *dense), dtype=dtype), shape, sparse_dim > 0
    )


def without_elements(x: Any, dtype: Any = None) -> Any:
    """A tensor of the same shape and layout without elements."""
    dtype = x._layout.dtype if dtype is None else dtype
    if isinstance(x, SparseCoo):
        return empty_like_shape(x._layout.shape, x._places._layout.shape[0], dense_shape(x), dtype)
    count = x._entries._layout.shape[len(x._bounds._layout.shape) :]
    batch = x._bounds._layout.shape[:-1]
    return compressed(
        NAMESPACE["zeros_like"](x._bounds),
        x._others.new_zeros((*batch, 0)),
        NAMESPACE["zeros"]((*batch, 0, *count), dtype=dtype),
        x._layout.shape,
        x.layout,
    )


def _index_dtype(out_int32: bool, given: Tensor) -> Any:
    return int32 if out_int32 else given._layout.dtype


def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each of `size` rows begins and the last ends, of sorted row numbers `input`: (size + 1,), of int32 if wanted.

    Raises RuntimeError for more than one dimension, NotImplementedError for numbers that aren't int32 or int64.
    """
    if input._layout.ndim > 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {input._layout.ndim} dimensional tensor.")
    if input._layout.dtype not in (int32, int64):
        raise NotImplementedError(
            f"\"convert_indices_from_coo_to_csr_cpu\" not implemented for '{input._layout.dtype.scalar_name}'"
        )
    rows = NAMESPACE["arange"](size + 1, dtype=input._layout.dtype)
    return NAMESPACE["searchsorted"](input.contiguous(), rows).to(_index_dtype(out_int32, input))


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """The places of a CSR matrix's elements: (2, count), rows and columns (the other way round if transposed)."""
    dtype = _index_dtype(out_int32, crow_indices)
    places = (rows_of_bounds(crow_indices).to(dtype), col_indices.to(dtype))
    return NAMESPACE["stack"](places[::-1] if transpose else places)


__all__ = [
    "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo",
    "at_places",
    "coalesce",
    "positions",
    "replace",
    "rows_of_bounds",
    "to_dense",
    "to_sparse",
    "without_elements",
]
