"""What can be asked of a sparse tensor: its places and values, counts, and in which ways it is no dense one.

Stands on conversions and views.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from flambeau.base import layout as layouts
from flambeau.core.autograd.inplace import owned
from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor import storage
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.compression import COMPRESSED
from flambeau.ops.sparse.construction import empty_sparse, sparse_coo_tensor
from flambeau.ops.sparse.conversions import copied_places, replace, to, to_dense, without_elements
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

_NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"


# ---------------------------------------------------------------- parts


@rule("_nnz")
def nnz(x: Any) -> int:
    """The number of elements (of a batch: in each matrix)."""
    if not isinstance(x, SparseTensor):
        raise refused("_nnz", x)
    return x._entries._layout.shape[0] if isinstance(x, SparseCoo) else x._others._layout.shape[-1]


@rule("sparse_dim")
def sparse_dim(x: Any) -> int:
    """The number of dimensions with places; 0 of a dense tensor."""
    return x._places._layout.shape[0] if isinstance(x, SparseCoo) else 2 if isinstance(x, SparseCompressed) else 0


@rule("dense_dim")
def dense_dim(x: Any) -> int:
    """The number of dimensions of a value; all of them of a dense tensor."""
    if isinstance(x, SparseCompressed):
        return x._layout.ndim - 2 - (x._bounds._layout.ndim - 1)
    return x._layout.ndim - sparse_dim(x)


@rule("is_coalesced")
def is_coalesced(x: Any) -> bool:
    """Whether the places are known to be in order and without repetition."""
    return bool(_coo(x, "is_coalesced")._ordered)


def _coo(x: Any, name: str) -> SparseCoo:
    if not isinstance(x, SparseCoo):
        raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got {NAMES[layout_of(x)]}")
    return x


@rule("indices")
def indices(x: Any) -> Tensor:
    """The places (sparse dimensions, count) of a coalesced COO tensor."""
    if not _coo(x, "indices")._ordered:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return owned(x._places.alias())


@rule("values")
def values(x: Any) -> Tensor:
    """The values of a sparse tensor, in the graph."""
    if not isinstance(x, SparseTensor):
        raise RuntimeError(f"values expected sparse tensor layout but got {NAMES[layout_of(x)]}")
    if isinstance(x, SparseCoo) and not x._ordered:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return renamed(x._entries.alias(), "ValuesBackward0")


@rule("_indices")
def all_indices(x: Any) -> Tensor:
    """The places of a COO tensor, coalesced or not."""
    if not isinstance(x, SparseCoo):
        raise refused("_indices", x)
    return x._places.alias()


@rule("_values")
def all_values(x: Any) -> Tensor:
    """The values of a COO tensor outside the graph, coalesced or not."""
    if not isinstance(x, SparseCoo):
        raise refused("_values", x)
    return x._entries.detach()


def _part(name: str, kinds: tuple[Any, ...], words: str, attribute: str) -> Callable[[Any], Tensor]:
    @rule(name)
    def part(x: Any) -> Tensor:
        if layout_of(x) not in kinds:
            raise RuntimeError(f"{name} expected sparse {words} compressed tensor layout but got {NAMES[layout_of(x)]}")
        return owned(getattr(x, attribute).alias())

    part.__name__ = part.__qualname__ = name
    part.__doc__ = "Of a compressed tensor, " + (
        "where each row or column begins." if attribute == "_bounds" else "the positions of the elements in theirs."
    )
    return part


_ROWS, _COLUMNS = (layouts.sparse_csr, layouts.sparse_bsr), (layouts.sparse_csc, layouts.sparse_bsc)
crow_indices = _part("crow_indices", _ROWS, "row", "_bounds")
col_indices = _part("col_indices", _ROWS, "row", "_others")
ccol_indices = _part("ccol_indices", _COLUMNS, "column", "_bounds")
row_indices = _part("row_indices", _COLUMNS, "column", "_others")


# ---------------------------------------------------------------- what it is not


@rule("stride")
def stride(x: Any, dim: int | None = None) -> Any:
    """Zeros (COO); RuntimeError (compressed)."""
    if isinstance(x, SparseCompressed):
        raise RuntimeError("Sparse CSR tensors do not have strides")
    return (0,) * x._layout.ndim if dim is None else 0


@rule("is_contiguous")
def is_contiguous(x: Any, memory_format: Any = None) -> bool:
    """False (COO); RuntimeError (compressed)."""
    if isinstance(x, SparseCompressed):
        raise RuntimeError("Sparse CSR tensors do not have is_contiguous")
    return False


@rule("storage_offset")
def storage_offset(x: Any) -> int:
    """0."""
    return 0


@rule("data_ptr", "const_data_ptr", "tolist", "apply_", "map_")
def data_ptr(x: Any, *args: Any) -> Any:
    """RuntimeError: there is no memory of the tensor's own."""
    raise RuntimeError(_NO_STORAGE)


@rule("storage", "untyped_storage", "share_memory_", "is_shared", "_typed_storage")
def no_storage(x: Any, *args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: there is no memory of the tensor's own."""
    raise NotImplementedError(
        f"Cannot access storage of {'SparseTensorImpl' if isinstance(x, SparseCoo) else 'SparseCsrTensorImpl'}"
    )


@rule("numpy", "__array__")
def numpy(x: Any, *args: Any, **kwargs: Any) -> Any:
    """TypeError: NumPy has no sparse arrays."""
    raise TypeError(f"can't convert {NAMES[x.layout]} layout tensor to numpy. Use Tensor.to_dense() first.")


@rule("item")
def item(x: Any) -> Any:
    """The only element as a number."""
    if x._layout.numel != 1:
        raise RuntimeError(f"a Tensor with {x._layout.numel} elements cannot be converted to Scalar")
    return to_dense(x).item()


def _number(name: str, kind: Callable[[Any], Any]) -> None:
    @rule(name)
    def convert(x: Any) -> Any:
        if x._layout.numel != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return kind(item(x))


for _name, _kind in (("__float__", float), ("__int__", int), ("__complex__", complex), ("__index__", int)):
    _number(_name, _kind)


@rule("__bool__", "is_nonzero")
def truth(x: Any) -> bool:
    """Whether the only element isn't zero."""
    if x._layout.numel != 1:
        words = "no values" if not x._layout.numel else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {words} is ambiguous")
    return bool(item(x))


@rule("is_same_size")
def is_same_size(x: Any, other: Any) -> bool:
    """Whether the shapes are equal."""
    return bool(x._layout.shape == other._layout.shape)


@rule("_has_compatible_shallow_copy_type")
def may_be_data(x: Any, other: Any) -> bool:
    """Whether both are on devices of one type, in one layout."""
    return bool(x.device.type == other.device.type and x.layout is other.layout)


@rule("is_pinned")
def is_pinned(x: Any, device: Any = None) -> bool:
    """False."""
    return False


@rule("pin_memory")
def pin_memory(x: Any, device: Any = None) -> Any:
    """RuntimeError: there is no accelerator."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


@rule("get_device")
def get_device(x: Any) -> int:
    """-1: the CPU."""
    return -1


@rule("is_inference")
def is_inference(x: Any) -> bool:
    """Whether the values were allocated in inference mode."""
    return bool(x._entries.is_inference())


@rule("_is_view")
def is_view(x: Any) -> bool:
    """False."""
    return False


@rule("type")
def kind(x: Any, dtype: Any = None, non_blocking: bool = False, **_: Any) -> Any:
    """The name of the tensor's type, or the tensor with its values in another dtype."""
    if dtype is None:
        if isinstance(x, SparseCompressed):
            raise RuntimeError(f"Unimplemented backend {'SparseCsrCPU'}")
        return x._entries.type().replace("torch.", "torch.sparse.")
    if isinstance(dtype, str):
        dtype = x._entries.new_empty(0).type(dtype.replace("torch.sparse.", "torch."))._layout.dtype
    return to(x, getattr(dtype, "dtype", dtype))


@rule("numel")
def numel(x: Any) -> int:
    """The number of places."""
    return x._layout.numel


# ---------------------------------------------------------------- others of its kind


@rule("new_zeros", "new_empty")
def new_zeros(x: Any, *size: Any, dtype: Any = None, **_: Any) -> Any:
    """A tensor of the same layout and of another shape without elements."""
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    return empty_sparse(shape, x.layout, x._layout.dtype if dtype is None else dtype)


@rule("new")
def new(x: Any, *args: Any, device: Any = None) -> Any:
    """The old constructor, of the dtype of this tensor: sizes, or indices and values, with a size or without."""
    if isinstance(x, SparseCompressed):
        raise refused("new", x)
    dtype = x._layout.dtype
    if args and isinstance(args[0], Tensor):
        return sparse_coo_tensor(args[0], args[1].to(dtype), *args[2:3])
    return empty_sparse(tuple(args[0]) if len(args) == 1 and not isinstance(args[0], int) else args or (0,), x.layout, dtype)


@rule("result_type")
def result_type(tensor1: Any, tensor2: Any) -> Any:
    """What arithmetic of two tensors, or of a tensor and a number, gives; sparse tensors count as dense ones."""
    return NAMESPACE["result_type"](
        *[
            NAMESPACE["empty"](x._layout.shape, dtype=x._layout.dtype, device="meta") if isinstance(x, SparseTensor) else x
            for x in (tensor1, tensor2)
        ]
    )


@rule("resize_as_sparse_", "resize_as_")
def resize_as_sparse_(x: Any, other: Any, *, memory_format: Any = None) -> Any:
    """Take on the shape of another sparse tensor; a COO tensor keeps its elements."""
    if not isinstance(other, SparseTensor):
        raise RuntimeError("resize_as_sparse_ requires sparse tensors")
    if x._layout.shape == other._layout.shape:
        return x
    if isinstance(x, SparseCoo) and isinstance(other, SparseCoo):
        sparse_dim = other._places._layout.shape[0]
        return sparse_resize_(x, tuple(other._layout.shape), sparse_dim, other._layout.ndim - sparse_dim)
    return replace(x, without_elements(other, x._layout.dtype))


@rule("sparse_resize_")
def sparse_resize_(x: SparseCoo, size: Any, sparse_dim: int, dense_dim: int) -> SparseCoo:
    """Give a tensor another shape in place. A tensor with elements keeps its numbers of dimensions, none of which shrinks."""
    if x._entries._layout.shape[0]:
        own = (x._places._layout.shape[0], x._layout.ndim - x._places._layout.shape[0])
        if own[0] != sparse_dim:
            raise RuntimeError(
                f"changing the number of sparse dimensions (from {own[0]} to {sparse_dim}) on a non-empty sparse tensor is "
                "not supported.\n\nIf you need an empty sparse tensor of this size, call "
                "`x = torch.sparse_coo_tensor(size)`."
            )
        if own[1] != dense_dim:
            raise RuntimeError(
                f"changing the number of dense dimensions (from {own[1]} to {dense_dim}) on a non-empty sparse tensor is "
                "not supported.\n\nIf you need an empty sparse tensor of this size, call "
                "`x = torch.sparse_coo_tensor(size)`."
            )
        if [n for n, m in zip(size, x._layout.shape) if n < m]:
            raise RuntimeError(
                "shrinking the size of sparse dimensions "
                f"(from {list(x._layout.shape[:sparse_dim])} to {list(size[:sparse_dim])}) on a non-empty sparse tensor "
                "is not supported.\n\nIf you need an empty sparse tensor of this size, call "
                "`x = torch.sparse_coo_tensor(size)`."
            )
        return replace(x, coo(x._places, x._entries, size, x._ordered))
    return sparse_resize_and_clear_(x, size, sparse_dim, dense_dim)


@rule("sparse_resize_and_clear_")
def sparse_resize_and_clear_(x: SparseCoo, size: Any, sparse_dim: int, dense_dim: int) -> SparseCoo:
    """Give a tensor another shape in place, without elements."""
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse_dim}, "
            f"dense_dim = {dense_dim}"
        )
    return replace(x, empty_sparse(tuple(size), x.layout, x._layout.dtype, sparse_dim))


@rule("__deepcopy__")
def deepcopy(x: Any, memo: dict[Any, Any]) -> Any:
    """A copy of a leaf: places, values, and gradient."""
    if x._node is not None and type(x._node) is not AccumulateGrad:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(x) in memo:
        return memo[id(x)]
    made = copied_places(x).like(x._entries.detach().clone())
    memo[id(x)] = made
    own = {name: value for name, value in x.__dict__.items() if name not in made.__dict__}
    made.__dict__.update(copy.deepcopy(own, memo))
    if x.requires_grad:
        made.requires_grad_()
    if x._entries.grad is not None:
        made._entries.grad = copy.deepcopy(x._entries.grad, memo)
    return made


__all__ = ["COMPRESSED", "ccol_indices", "col_indices", "compressed", "crow_indices", "row_indices", "storage"]
