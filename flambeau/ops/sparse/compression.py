"""To compressed layouts (CSR, CSC, BSR, BSC): from dense matrices what isn't zero; from sparse ones what is stored, zeros too.

Between sparse layouts only places are computed; values are gathered, or summed into blocks, as steps of the graph. Indices keep
their dtype. What PyTorch doesn't convert is refused in its words. Stands on tensor and places; used by conversions.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base import layout as layouts
from flambeau.core.modes.modes import no_grad
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.sparse.places import added_up, bounds_of, by_columns, by_rows, places_of_values
from flambeau.ops.sparse.tensor import NAMES, RULES, SparseCompressed, SparseCoo, SparseTensor, compressed, layout_of, renamed

COMPRESSED = (layouts.sparse_csr, layouts.sparse_csc, layouts.sparse_bsr, layouts.sparse_bsc)
BLOCKED = (layouts.sparse_bsr, layouts.sparse_bsc)
BY_ROWS = (layouts.sparse_csr, layouts.sparse_bsr)


def unbatched(x: SparseCompressed) -> list[SparseCompressed]:
    """The matrices of a batch of compressed ones, one after the other."""
    depth = x._bounds._layout.ndim - 1
    shape = x._layout.shape[depth:]
    bounds, others, entries = (t.flatten(0, depth - 1).unbind(0) for t in (x._bounds, x._others, x._entries))
    return [compressed(*parts, shape, x.layout) for parts in zip(bounds, others, entries)]


def compress(x: Any, target: Any, blocksize: Any = None, dense_dim: int | None = None, suffix: str = "") -> SparseCompressed:
    """A matrix (or a batch of them), dense or sparse, in a compressed layout. suffix: of the conversion that was called, if it
    wasn't to_sparse.
    """
    if blocksize.__class__ is int:
        blocksize = (blocksize, blocksize)
    check_conversion(x, target, blocksize, dense_dim, suffix)
    if layout_of(x) is target:
        return x
    blocks = tuple(blocksize) if blocksize is not None else ()
    name = "ToSparse" + NAMES[target].removeprefix("Sparse") + "Backward0"
    if isinstance(x, SparseTensor):
        return renamed(_converted(RULES["coalesce"](x) if isinstance(x, SparseCoo) else x, target, blocks), name)
    batch = x._layout.ndim - 2 - (dense_dim or 0)
    if batch < 0:
        raise IndexError(f"select(): index 1 out of range for tensor of size {[*x._layout.shape, 1]} at dimension 1")
    if not known(x):
        raise needs_values(x, f"_to_sparse_{NAMES[target].removeprefix('Sparse').lower()}")
    return renamed(_from_dense(x, target, blocks, batch), name)


# ---------------------------------------------------------------- what isn't converted


def check_conversion(x: Any, target: Any, blocksize: Any, dense_dim: int | None, suffix: str = "") -> None:
    """RuntimeError for a conversion that PyTorch doesn't do."""
    own = layout_of(x)
    kind = "dense" if own is layouts.strided else "sparse_compressed" if own in COMPRESSED else "coo" if suffix else "sparse_coo"
    name = "to_sparse" if own is target and not suffix else f"{kind}_to_sparse{suffix}"

    def refuse(words: str) -> RuntimeError:
        return RuntimeError(f"{name}: conversion from {NAMES[own]} to {NAMES[target]} {words} is not supported")

    if dense_dim is not None and own is not layouts.strided:
        raise refuse("with dense_dim argument given")
    if (target in BLOCKED) != (blocksize is not None):
        raise refuse(f"{'with' if blocksize is not None else 'without'} blocksize argument given")
    if own in BLOCKED and target in BLOCKED and tuple(blocksize) != x.blocks:
        raise refuse(f"with blocksize changed from {list(x.blocks)} to {list(blocksize)}")
    if own is target or own is layouts.strided or target not in COMPRESSED:
        return
    if isinstance(x, SparseCoo):
        if x._places._layout.shape[0] != 2:
            raise refuse("for input tensors with sparse_dim()!=2")
    elif own in BLOCKED:
        if target not in BLOCKED:
            raise RuntimeError(
                f"sparse_compressed_to_sparse_{NAMES[target][6:].lower()}: expected SparseCsr or SparseCsc layout "
                f"but got {NAMES[own]}"
            )
    elif target in BLOCKED:
        if x._bounds._layout.ndim > 1:
            raise refuse("for batched inputs")
    if target in BLOCKED and own not in BLOCKED:
        sizes = x._layout.shape[:2]
        if any(n % b for n, b in zip(sizes, blocksize)):
            raise RuntimeError(
                f"{name}: tensor sparse size ({sizes[0]},{sizes[1]}) must be divisible by given blocksize "
                f"({blocksize[0]},{blocksize[1]})"
            )


# ---------------------------------------------------------------- from sparse tensors


def _converted(x: Any, target: Any, blocks: tuple[int, ...]) -> SparseCompressed:
    if isinstance(x, SparseCompressed) and x._bounds._layout.ndim > 1:
        batch = x._bounds._layout.shape[:-1]
        return _stacked([_converted(part, target, blocks) for part in unbatched(x)], batch, x._layout.shape, target)
    if blocks and not getattr(x, "blocks", ()):
        return _in_blocks(x, target, blocks)
    grid = x
    if blocks:  # the blocks of another order: those of a matrix that has one element for each
        sizes = tuple(n // b for n, b in zip(x._layout.shape, blocks))
        grid = compressed(x._bounds, x._others, x._entries, sizes, layouts.sparse_csr if x.by_rows else layouts.sparse_csc)
    found = (by_rows if target in BY_ROWS else by_columns)(grid)
    bounds, others = found.bounds, found.columns
    if isinstance(x, SparseCompressed):
        bounds, others = (t.to(x._others._layout.dtype) for t in (bounds, others))
    return compressed(bounds, others, _own(found.entries(x._entries), x), x._layout.shape, target)


def _own(entries: Tensor, x: Any) -> Tensor:
    """Values of a new tensor: another step of the graph than those of x."""
    return entries.alias() if entries is x._entries else entries


def _in_blocks(x: Any, target: Any, blocks: tuple[int, ...]) -> SparseCompressed:
    """A matrix of single elements with the blocks in which some are stored."""
    high, wide = blocks
    sizes = tuple(n // b for n, b in zip(x._layout.shape, blocks))
    with no_grad():
        rows, columns = places_of_values(x).unbind(0)
        majors, minors = (rows // high, columns // wide) if target in BY_ROWS else (columns // wide, rows // high)
        width = max(sizes[1 if target in BY_ROWS else 0], 1)
        found, at = NAMESPACE["unique"](majors * width + minors, return_inverse=True)
        count = found._layout.numel
        inside = (at * high + rows % high) * wide + columns % wide
        bounds, others = bounds_of(found // width, sizes[0 if target in BY_ROWS else 1]), found % width
        if isinstance(x, SparseCompressed):
            bounds, others = (t.to(x._others._layout.dtype) for t in (bounds, others))
    entries = added_up(x._entries, inside, count * high * wide)
    return compressed(bounds, others, entries.reshape((count, high, wide, *entries._layout.shape[1:])), x._layout.shape, target)


def _stacked(parts: list[SparseCompressed], batch: Any, shape: Any, target: Any) -> SparseCompressed:
    """A batch of compressed matrices with as many elements each."""
    bounds, others, entries = (
        NAMESPACE["stack"](list(t)).unflatten(0, batch)
        for t in zip(*[(part._bounds, part._others, part._entries) for part in parts])
    )
    return compressed(bounds, others, entries, shape, target)


# ---------------------------------------------------------------- from dense tensors


def _from_dense(x: Tensor, target: Any, blocks: tuple[int, ...], batch: int) -> SparseCompressed:
    shape = x._layout.shape
    if batch:
        if not math.prod(shape[:batch]):
            raise RuntimeError("to_sparse: Expected batched input, but got a batch without matrices")
        parts = [_from_dense(part, target, blocks, 0) for part in x.flatten(0, batch - 1).unbind(0)]
        if len({part._others._layout.numel for part in parts}) > 1:
            raise RuntimeError("Expect the same number of specified elements per batch.")
        return _stacked(parts, shape[:batch], shape, target)
    by_row = target in BY_ROWS
    if blocks:
        if any(n % b for n, b in zip(shape, blocks)):
            raise RuntimeError(
                f"tensor sparse size ({', '.join(map(str, shape[:2]))}) must be divisible by given blocksize "
                f"({', '.join(map(str, blocks))})"
            )
        high, wide = blocks
        x = x.reshape((shape[0] // high, high, shape[1] // wide, wide, *shape[2:])).transpose(1, 2)
    with no_grad():
        present = x.ne(0)
        if x._layout.ndim > 2:
            present = present.flatten(2).any(-1)
        first, second = NAMESPACE["nonzero"](present if by_row else present.t()).unbind(1)
    count = x._layout.shape[0 if by_row else 1]
    rows, columns = (first, second) if by_row else (second, first)
    return compressed(bounds_of(first, count), second.contiguous(), x[rows, columns], shape, target)
