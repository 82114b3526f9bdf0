"""Sparse tensors made of their parts: `sparse_coo_tensor`, `sparse_compressed_tensor` and its relatives, `spdiags`.

What the parts must fulfil (places inside the shape, rows in order ...) is checked where
`check_sparse_tensor_invariants` is on or a call asks for it, as in PyTorch: by kernels, a place outside of the shape is
refused at the latest when it is used. Stands on conversions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base import layout as layouts
from flambeau.base.dtype import get_default_dtype, int32, int64
from flambeau.base.layout import Size
from flambeau.core.modes.modes import no_grad
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.compression import COMPRESSED
from flambeau.ops.sparse.tensor import NAMES, SparseCompressed, SparseCoo, SparseTensor, compressed, coo, renamed

REQUIRED: Any = object()


class Invariants:
    """Whether the parts of sparse tensors are checked when they are made."""

    enabled = False


def _tensor(given: Any, dtype: Any = None) -> Tensor:
    made = given if isinstance(given, Tensor) else NAMESPACE["tensor"](given)
    return made if dtype is None or made._layout.dtype is dtype else made.to(dtype)


def _entries(values: Any, dtype: Any, device: Any, requires_grad: bool, step: str) -> Tensor:
    """The values as those of a new tensor: the same memory, a step further in the graph."""
    made = values if isinstance(values, Tensor) else NAMESPACE["tensor"](values, dtype=dtype)
    if (dtype is not None and made._layout.dtype is not dtype) or device is not None:
        made = made.to(device=device, dtype=dtype)
    if requires_grad:
        if not (made._layout.dtype.is_floating_point or made._layout.dtype.is_complex):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        return made.detach().requires_grad_()
    return renamed(made.alias(), step) if made._node is not None else made.alias()


def sparse_coo_tensor(
    indices: Any = REQUIRED,
    values: Any = REQUIRED,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseCoo:
    """A tensor in coordinate format.

    indices: (sparse dimensions, count), which become int64; values: (count, *dense dimensions), whose memory is shared and
    which get a gradient; size: the shape (default: the smallest that holds the places). Values at equal places count as
    their sum. With nothing but a size: a tensor without elements. is_coalesced: say that the places are in order and
    without repetition.

    Raises:
        RuntimeError: parts that don't fit; with check_invariants, places outside of the shape.
    """
    if values is REQUIRED:
        shape = size if size is not None else indices
        if shape is REQUIRED or shape is None:
            raise TypeError("sparse_coo_tensor() received an invalid combination of arguments - got ()")
        made = empty_sparse(tuple(shape), layouts.sparse_coo, dtype or get_default_dtype())
        return made.requires_grad_() if requires_grad else made
    entries = _entries(values, dtype, device, requires_grad, "SparseCooTensorWithDimsAndTensorsBackward0")
    places = _tensor(indices, int64).detach()
    if device is not None:
        places = places.to(device)
    if not entries._layout.ndim:
        entries = entries.expand(1)
    if places._layout.ndim != 2 and size is None:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places._layout.shape)}")
    if places._layout.ndim == 1:
        places = places.unsqueeze(1)
    sparse_dim, count = places._layout.shape
    dense = tuple(entries._layout.shape[1:])
    if size is not None:
        if len(size) != sparse_dim + len(dense):
            raise RuntimeError(
                f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
                f"{sparse_dim}, dense_dim = {len(dense)}"
            )
    elif count:
        with no_grad():
            low = places.min() if sparse_dim else None
            if low is not None and int(low) < 0:
                dim = next(d for d in range(sparse_dim) if int(places[d].min()) < 0)
                raise RuntimeError(f"found negative index {int(places[dim].min())} for dim {dim}")
            size = [*[int(n) + 1 for n in (places.amax(1).tolist() if sparse_dim else [])], *dense]
    else:
        size = (*(0,) * sparse_dim, *dense)
    shape = _shape(size)
    if entries._layout.shape[0] != count:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, nnz from values: "
            f"{entries._layout.shape[0]}"
        )
    if check_invariants if check_invariants is not None else Invariants.enabled:
        validate_coo(places, entries, shape, bool(is_coalesced))
    elif tuple(shape[sparse_dim:]) != dense:
        raise RuntimeError(
            f"values has incorrect size, expected {[count, *shape[sparse_dim:]]}, got {list(entries._layout.shape)}"
        )
    return coo(places, entries, shape, bool(is_coalesced))


def validate_coo(places: Tensor, entries: Tensor, shape: Sequence[int], is_coalesced: bool = False) -> None:
    """RuntimeError unless these are parts of a COO tensor of this shape."""
    sparse_dim, count = places._layout.shape
    if entries._layout.shape[0] != count:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, nnz from values: "
            f"{entries._layout.shape[0]}"
        )
    if list(shape[sparse_dim:]) != list(entries._layout.shape[1:]):
        raise RuntimeError(
            f"values has incorrect size, expected {[count, *shape[sparse_dim:]]}, got {list(entries._layout.shape)}"
        )
    if not count or not sparse_dim:
        return
    with no_grad():
        lowest, highest = places.amin(1).tolist(), places.amax(1).tolist()
        for dim in range(sparse_dim):
            if lowest[dim] < 0:
                raise RuntimeError(f"found negative index {lowest[dim]} for dim {dim}")
            if highest[dim] >= shape[dim]:
                raise RuntimeError(
                    f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found index {highest[dim]}"
                )
        if is_coalesced:
            from flambeau.ops.sparse.places import keys_of

            steps = keys_of(places, shape[:sparse_dim]).diff()
            if bool((steps <= 0).any()):
                raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


# ---------------------------------------------------------------- compressed layouts


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseCompressed:
    """A tensor in a compressed layout: torch.sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.

    compressed_indices: (*batch, rows + 1), where each row (or column) begins; plain_indices: (*batch, count), the columns (or
    rows) of the elements; values: (*batch, count, *block, *dense dimensions). size: the shape (default: the smallest).
    """
    if layout not in COMPRESSED:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            + ("none" if layout is None else NAMES[layout])
        )
    entries = _entries(values, dtype, device, requires_grad, "SparseCompressedTensorBackward0")
    bounds, others = _tensor(compressed_indices).detach(), _tensor(plain_indices).detach()
    if device is not None:
        bounds, others = bounds.to(device), others.to(device)
    if size is None:
        size = _smallest(bounds, others, entries, layout)
    if check_invariants if check_invariants is not None else Invariants.enabled:
        validate_compressed(bounds, others, entries, size, layout)
    return compressed(bounds, others, entries, _shape(size), layout)


def _shape(size: Any) -> Size:
    """A size that a tensor can have, whether its parts fit it or not. Raises RuntimeError for another one."""
    shape = Size(size)
    if min(shape, default=0) < 0 or math.prod(shape) >= 1 << 63:
        raise RuntimeError("numel: integer multiplication overflow")
    return shape


def _smallest(bounds: Tensor, others: Tensor, entries: Tensor, layout: Any) -> tuple[int, ...]:
    batch = bounds._layout.ndim - 1
    blocked = layout in (layouts.sparse_bsr, layouts.sparse_bsc)
    blocks = tuple(entries._layout.shape[batch + 1 : batch + 3]) if blocked else (1, 1)
    majors = bounds._layout.shape[-1] - 1
    minors = int(others.max()) + 1 if others._layout.numel else 0
    rows, columns = (majors, minors) if layout in (layouts.sparse_csr, layouts.sparse_bsr) else (minors, majors)
    return (
        *bounds._layout.shape[:-1],
        rows * blocks[0],
        columns * blocks[1],
        *entries._layout.shape[batch + (3 if blocked else 1) :],
    )


def _of_layout(name: str, layout: Any, first: str, second: str) -> Callable[..., SparseCompressed]:
    def make(
        *parts: Any,
        dtype: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        check_invariants: bool | None = None,
        **named: Any,
    ) -> SparseCompressed:
        names = (first, second, "values", "size")
        given = dict(zip(names, parts)) | {k: v for k, v in named.items() if k != "layout"}
        if set(given) - set(names) or not {first, second, "values"} <= set(given):
            raise TypeError(f"{name}() received an invalid combination of arguments")
        return sparse_compressed_tensor(
            *[given.get(n) for n in names],
            dtype=dtype,
            layout=layout,
            device=device,
            requires_grad=requires_grad,
            check_invariants=check_invariants,
        )

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor of layout {layout} from its {first}, {second}, values and size: see sparse_compressed_tensor."
    return make


sparse_csr_tensor = _of_layout("sparse_csr_tensor", layouts.sparse_csr, "crow_indices", "col_indices")
sparse_csc_tensor = _of_layout("sparse_csc_tensor", layouts.sparse_csc, "ccol_indices", "row_indices")
sparse_bsr_tensor = _of_layout("sparse_bsr_tensor", layouts.sparse_bsr, "crow_indices", "col_indices")
sparse_bsc_tensor = _of_layout("sparse_bsc_tensor", layouts.sparse_bsc, "ccol_indices", "row_indices")


def validate_compressed(bounds: Tensor, others: Tensor, entries: Tensor, shape: Sequence[int], layout: Any) -> None:
    """RuntimeError unless these are parts of a compressed tensor of this shape and layout."""
    by_row = layout in (layouts.sparse_csr, layouts.sparse_bsr)
    first, second = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
    batch, blocked = bounds._layout.ndim - 1, layout in (layouts.sparse_bsr, layouts.sparse_bsc)
    if bounds._layout.ndim != others._layout.ndim:
        raise RuntimeError(
            f"{first} and {second} dimensionalities must be equal but got {bounds._layout.ndim} and "
            f"{others._layout.ndim}, respectively"
        )
    dense = entries._layout.ndim - batch - (3 if blocked else 1)
    if len(shape) != batch + 2 + dense:
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch} + 2 + {dense}) but "
            f"got {len(shape)}"
        )
    blocks = tuple(entries._layout.shape[batch + 1 : batch + 3]) if blocked else (1, 1)
    rows, columns = shape[batch] // (blocks[0] or 1), shape[batch + 1] // (blocks[1] or 1)
    majors, minors = (rows, columns) if by_row else (columns, rows)
    if bounds._layout.shape[-1] != majors + 1:
        raise RuntimeError(
            f"{first}.shape[-1] must be equal to the number of {'row' if by_row else 'column'}{' block' * blocked}s + 1 "
            f"(={majors + 1}), but got {bounds._layout.shape[-1]}"
        )
    if entries._layout.shape[batch] != others._layout.shape[-1]:
        raise RuntimeError(
            f"{second}.shape[-1] must be equal to nnz (={entries._layout.shape[batch]}) as defined by "
            f"values.shape[{batch}], but got {others._layout.shape[-1]}"
        )
    if bounds._layout.dtype is not others._layout.dtype:
        raise RuntimeError(
            f"{first} and {second} must have the same dtype, bot got {bounds._layout.dtype.scalar_name} and "
            f"{others._layout.dtype.scalar_name}, respectively"
        )
    if bounds._layout.dtype not in (int32, int64):
        raise RuntimeError(f"{first} and {second} must be an int32 or int64 type, but got {bounds._layout.dtype.scalar_name}")
    count = others._layout.shape[-1]
    lines = math.prod(bounds._layout.shape[:-1])
    limits, places = bounds.numpy().reshape(lines, majors + 1), others.numpy().reshape(lines, count)
    if (limits[:, 0] != 0).any():
        raise RuntimeError(f"`{first}[..., 0] == 0` is not satisfied.")
    if (limits[:, -1] != count).any():
        raise RuntimeError(f"`{first}[..., -1] == nnz` is not satisfied.")
    if ((places < 0) | (places >= minors)).any():
        name = "ncols" if by_row else "nrows"
        raise RuntimeError(f"`0 <= {second} < {name}` is not satisfied.")
    steps = np.diff(limits)
    if ((steps < 0) | (steps > minors)).any():
        name = "ncols" if by_row else "nrows"
        raise RuntimeError(f"`0 <= {first}[..., 1:] - {first}[..., :-1] <= {name}` is not satisfied.")
    for line, own in zip(limits, places):
        rise = np.diff(own) > 0
        inner = np.ones(max(count - 1, 0), bool)
        inner[line[(line > 0) & (line < count)] - 1] = False
        if not rise[inner].all():
            raise RuntimeError(
                f"`{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., "
                f"{'nrows' if by_row else 'ncols'} are sorted and distinct along the last dimension values` is not "
                "satisfied."
            )


def _validating(layout: Any) -> Callable[..., None]:
    def validate(compressed_indices: Tensor, plain_indices: Tensor, values: Tensor, size: Sequence[int], *_: Any) -> None:
        """RuntimeError unless these are parts of a tensor of the layout."""
        validate_compressed(compressed_indices, plain_indices, values, size, layout)

    return validate


(
    _validate_sparse_csr_tensor_args,
    _validate_sparse_csc_tensor_args,
    _validate_sparse_bsr_tensor_args,
    _validate_sparse_bsc_tensor_args,
) = map(_validating, COMPRESSED)


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Tensor, plain_indices: Tensor, values: Tensor, size: Sequence[int], layout: Any
) -> None:
    """RuntimeError unless these are parts of a tensor of the layout."""
    validate_compressed(compressed_indices, plain_indices, values, size, layout)


def _validate_sparse_coo_tensor_args(
    indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool | None = None
) -> None:
    """RuntimeError unless these are parts of a COO tensor of this shape."""
    validate_coo(indices, values, size, bool(is_coalesced))


# ---------------------------------------------------------------- empty ones, diagonals


def empty_sparse(shape: Sequence[int], layout: Any, dtype: Any, sparse_dim: int | None = None) -> Any:
    """A tensor of this shape and layout without elements."""
    if layout is layouts.sparse_coo:
        sparse_dim = len(shape) if sparse_dim is None else sparse_dim
        return coo(
            NAMESPACE["zeros"]((sparse_dim, 0), dtype=int64),
            NAMESPACE["zeros"]((0, *shape[sparse_dim:]), dtype=dtype),
            shape,
            sparse_dim > 0,
        )
    if layout is layouts._mkldnn:
        raise NotImplementedError("layout=torch._mkldnn is not implemented in flambeau: use strided tensors")
    if layout not in (layouts.sparse_csr, layouts.sparse_csc):
        raise RuntimeError(
            f"empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got {NAMES.get(layout, layout)}"
        )
    if len(shape) < 2:
        raise RuntimeError(
            f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {list(shape)}"
        )
    batch, count = tuple(shape[:-2]), shape[-2 if layout is layouts.sparse_csr else -1]
    return compressed(
        NAMESPACE["zeros"]((*batch, count + 1), dtype=int64),
        NAMESPACE["zeros"]((*batch, 0), dtype=int64),
        NAMESPACE["zeros"]((*batch, 0), dtype=dtype),
        shape,
        layout,
    )


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> SparseTensor:
    """A matrix with these diagonals.

    diagonals: (count, length), of which each row goes to the diagonal at its offset: element (i, i + offset) of the matrix
    is diagonals[row, i + offset]. offsets: (count,) of int64, distinct. layout: COO, CSR or CSC.
    """
    diagonals, offsets = _tensor(diagonals), _tensor(offsets)
    matrix = diagonals.unsqueeze(0) if diagonals._layout.ndim == 1 else diagonals
    given = offsets.reshape(-1) if not offsets._layout.ndim else offsets
    if matrix._layout.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if given._layout.ndim != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if matrix._layout.shape[0] != given._layout.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({matrix._layout.shape[0]}) does not match the number of offsets ({given._layout.shape[0]})"
        )
    if layout is not None and layout not in (layouts.sparse_coo, layouts.sparse_csr, layouts.sparse_csc):
        raise RuntimeError(f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {NAMES.get(layout, layout)}")
    steps = given.tolist()
    if not steps:
        return empty_sparse(tuple(shape), layout or layouts.sparse_coo, matrix._layout.dtype)
    if len(set(steps)) < len(steps):
        raise RuntimeError("Offset tensor contains duplicate values")
    high, wide = shape
    rows, columns, parts = [], [], []
    for at, step in enumerate(steps):
        first, last = max(0, step), min(matrix._layout.shape[1], high + step, wide)
        columns.append(NAMESPACE["arange"](first, max(first, last)))
        rows.append(columns[-1] - step)
        parts.append(matrix[at, first : max(first, last)])
    places = NAMESPACE["stack"]([NAMESPACE["cat"](rows), NAMESPACE["cat"](columns)])
    made = coo(places, renamed(NAMESPACE["cat"](parts), "SpdiagsBackward0"), (high, wide))
    return made if layout is None else made.to_sparse(layout=layout)
