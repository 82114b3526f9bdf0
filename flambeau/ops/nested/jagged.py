"""Jagged nested tensors: what can be asked of them, their views, copies and writes. Stands on construction."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.dtype import int64
from flambeau.base.geometry import wrap_dim, wrap_dims
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nested.construction import jagged_from_list
from flambeau.ops.nested.entries import CONVERSIONS, FACTS, convert, tell, write
from flambeau.ops.nested.tensor import Jagged, Ragged, is_ragged, jagged, renamed, row_views, rule_of_jagged, view_of

rule = rule_of_jagged


def inner(x: Jagged, dim: int, name: str) -> int:
    """The dimension of the values that one of the tensor's is. RuntimeError for the batch's, and for the rows'."""
    at = wrap_dim(dim, x._layout.ndim)
    if at == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if at == x._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return at - 1


# ---------------------------------------------------------------- facts


@rule("values", "_nested_get_values", "_nested_get_jagged_dummy")
def values(x: Jagged) -> Tensor:
    """The rows of all tensors, in the graph."""
    return renamed(x._entries.alias(), "NestedGetValuesBackward0")  # type: ignore[no-any-return]


tell(rule, *FACTS, "type")
convert(Jagged, rule, *CONVERSIONS)
write(rule, "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_", "exponential_")


@rule("data_ptr", "const_data_ptr")
def data_ptr(x: Jagged) -> int:
    """0: the memory is that of the values."""
    return 0


@rule("numpy", "__array__")
def numpy(x: Jagged, *args: Any, **kwargs: Any) -> Any:
    """RuntimeError: there are no ragged arrays."""
    raise RuntimeError(".numpy() is not supported for tensor subclasses.")


@rule("tolist")
def tolist(x: Jagged) -> Any:
    """RuntimeError, as of every subclass that wraps another tensor."""
    raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")


@rule("item")
def item(x: Jagged) -> Any:
    """The only element."""
    if x.numel() != 1:
        raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    return next(row for row in row_views(x) if row._layout.numel).item()


@rule("__bool__", "is_nonzero")
def truth(x: Jagged) -> bool:
    """Whether the only element isn't zero."""
    if x.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(item(x))


@rule("is_same_size")
def is_same_size(x: Any, other: Any) -> bool:
    """Whether the shapes are equal, the rows being the same."""
    return bool(x.shape == other.shape)


@rule("_nested_tensor_storage_offsets")
def starts(x: Jagged) -> Tensor:
    """Where each row begins."""
    return x._rows.offsets[:-1]


# ---------------------------------------------------------------- taking apart


@rule("unbind")
def unbind(x: Jagged, dim: int = 0) -> tuple[Tensor, ...]:
    """The tensors, views of the values."""
    if wrap_dim(dim, x._layout.ndim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return tuple(row_views(x))


@rule("__iter__")
def iterate(x: Jagged) -> Any:
    """The tensors one after the other."""
    return iter(row_views(x))


def _same(x: Jagged, entries: Tensor, removed: int | None = None, added: int | None = None) -> Jagged:
    """A tensor with the same rows, after a dimension of the values before theirs went, or came."""
    at = x._ragged_idx
    if removed is not None and removed < at - 1:
        at -= 1
    if added is not None and added <= at - 1:
        at += 1
    return view_of(jagged(entries, x._rows, at), x)  # type: ignore[no-any-return]


@rule("select")
def select(x: Jagged, dim: int, index: int) -> Any:
    """One of the tensors, or that index of a dimension which isn't ragged; a view."""
    if wrap_dim(dim, x._layout.ndim) == 0:
        count = x._rows.count
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {count}")
        start, length = x._rows.bounds[index]
        return x._entries.narrow(x._ragged_idx - 1, start, length)
    at = inner(x, dim, "select")
    return _same(x, x._entries.select(at, index), removed=at)


@rule("slice")
def sliced(x: Jagged, dim: int, cut: slice) -> Jagged:
    """A stretch of a dimension which isn't ragged; a view."""
    at = inner(x, dim, "slice")
    return x.like(x._entries[(slice(None),) * at + (cut,)])


@rule("__getitem__")
def getitem(x: Jagged, key: Any) -> Any:
    """Numbers and stretches, `...` and None; a number takes a tensor first."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(k, (Tensor, list)) for k in keys):
        raise x.refused("index", (x, x._entries))
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > x._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x._layout.ndim}")
    untouched = range(0)
    if any(k is Ellipsis for k in keys):
        place = next(n for n, k in enumerate(keys) if k is Ellipsis)
        untouched = range(place, place + x._layout.ndim - used)
        keys[place : place + 1] = [slice(None)] * len(untouched)
    made: Any = x
    dim = 0
    for place, k in enumerate(keys):
        if not isinstance(made, Jagged):
            return made[tuple(keys[place:])]
        if k is None:
            made = unsqueeze(made, dim)
            dim += 1
        elif isinstance(k, slice):
            if place not in untouched:
                made = sliced(made, dim, k)
            dim += 1
        else:
            made = select(made, dim, k)
    return made


@rule("split_with_sizes", "split")
def split(x: Jagged, sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts of a dimension which isn't ragged; views."""
    at = inner(x, dim, "split" if isinstance(sizes, int) else "split_with_sizes")
    return tuple(x.like(part) for part in x._entries.split(sizes, at))


@rule("chunk")
def chunk(x: Jagged, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Parts of a dimension which isn't ragged, or of the batch; views."""
    if wrap_dim(dim, x._layout.ndim) != 0:
        return tuple(x.like(part) for part in x._entries.chunk(chunks, inner(x, dim, "chunk")))
    if x._ragged_idx != 1 or x._rows.lengths is not None:
        raise RuntimeError("chunk(): not supported for NestedTensor on dim=0 with holes between its rows, or transposed")
    count, parts = x._rows.count, []
    each = -(-count // chunks)
    bounds = x._rows.bounds
    for begin in range(0, count, each):
        end = min(begin + each, count)
        first = bounds[begin][0]
        stop = bounds[end - 1][0] + bounds[end - 1][1]
        offsets = x._rows.offsets[begin : end + 1] - first
        parts.append(jagged(x._entries[first:stop], Ragged(offsets)))
    return tuple(parts)


@rule("narrow")
def narrow(x: Jagged, dim: int, start: int, length: int) -> Jagged:
    """A stretch of a dimension which isn't ragged; a view."""
    return x.like(x._entries.narrow(inner(x, dim, "narrow"), start, length))


# ---------------------------------------------------------------- views


@rule("transpose", "swapaxes", "swapdims")
def transpose(x: Jagged, dim0: int, dim1: int) -> Jagged:
    """Two dimensions exchanged, of which neither is the batch's; a view."""
    a, b = wrap_dims([dim0, dim1], x._layout.ndim) if dim0 != dim1 else (wrap_dim(dim0, x._layout.ndim),) * 2
    if a == 0 or b == 0:
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    at = {a: b, b: a}.get(x._ragged_idx, x._ragged_idx)
    made = renamed(jagged(x._entries.transpose(a - 1, b - 1), x._rows, at), "TransposeBackward0")
    return view_of(made, x)  # type: ignore[no-any-return]


Jagged.mT = property(lambda x: transpose(x, -2, -1), doc="The last two dimensions exchanged.")
Jagged.T = property(lambda x: permute(x, *reversed(range(x._layout.ndim))), doc="All dimensions in reverse order.")


@rule("permute")
def permute(x: Jagged, *dims: Any) -> Jagged:
    """The dimensions in another order, the batch's staying first; a view."""
    wanted = _given(dims)
    if len(wanted) != x._layout.ndim:
        raise ValueError(
            f"permute(): number of dimensions in the tensor input ({x._layout.ndim}) does not match the length of "
            "the desired "
            f"ordering of dimensions ({len(wanted)})."
        )
    if len({wrap_dim(d, x._layout.ndim) for d in wanted}) != len(wanted):
        raise ValueError("permute(): duplicate dims are not allowed.")
    order = wrap_dims(wanted, x._layout.ndim)
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    made = jagged(x._entries.permute([d - 1 for d in order[1:]]), x._rows, order.index(x._ragged_idx))
    return view_of(renamed(made, "PermuteBackward0"), x)  # type: ignore[no-any-return]


def _given(items: tuple[Any, ...]) -> list[Any]:
    return list(items[0] if len(items) == 1 and isinstance(items[0], (tuple, list)) else items)


@rule("unsqueeze")
def unsqueeze(x: Jagged, dim: int) -> Jagged:
    """A dimension of size 1 behind the batch's; a view."""
    at = wrap_dim(dim, x._layout.ndim + 1)
    if at == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return _same(x, x._entries.unsqueeze(at - 1), added=at - 1)


@rule("squeeze")
def squeeze(x: Jagged, dim: Any = None) -> Jagged:
    """Dimensions of size 1 left out, of those that aren't the batch's or the rows'; a view."""
    if dim is None:
        raise RuntimeError("squeeze(): not supported for NestedTensor without a dim")
    dims = [dim] if isinstance(dim, int) else list(dim)
    places = sorted((inner(x, d, "squeeze") for d in dims), reverse=True)
    made = x
    for at in places:
        if made._entries._layout.shape[at] == 1:
            made = _same(made, made._entries.squeeze(at), removed=at)
    return made


def _wanted(x: Jagged, shape: Sequence[Any], name: str) -> tuple[list[Any], int]:
    """The sizes of the values in a shape with a ragged size, or -1 in its place, and where that is."""
    refusal = RuntimeError(f"{name}(): cannot view shape {tuple(x.shape)} as {list(shape)}")
    ragged = [d for d, n in enumerate(shape) if is_ragged(n)]
    if any(shape[d] != x._rows.size for d in ragged):
        raise refusal
    if not ragged:  # -1 stands for the rows: as many sizes before it as here, or the only one
        places = [d for d, n in enumerate(shape) if n == -1]
        before = math.prod(x._entries._layout.shape[: x._ragged_idx - 1])
        ragged = [d for d in places if d > 0 and math.prod(int(n) for n in shape[1:d] if n != -1) == before][:1]
    if len(ragged) != 1 or not len(shape) or shape[0] not in (x._rows.count, -1) or ragged[0] == 0:
        raise refusal
    at = ragged[0]
    sizes = [*shape[1:at], x._entries._layout.shape[x._ragged_idx - 1], *shape[at + 1 :]]
    before, own = math.prod(int(n) for n in shape[1:at]), math.prod(x._entries._layout.shape[: x._ragged_idx - 1])
    if before != own and -1 not in shape[1:at]:
        raise refusal
    return [int(n) for n in sizes], at


@rule("_unsafe_view")
def unsafe_view(x: Jagged, *shape: Any) -> Jagged:
    """The same as a tensor which is no view of it."""
    sizes, at = _wanted(x, _given(shape), "view")
    return jagged(x._entries.view(sizes), x._rows, at)


@rule("view")
def view(x: Jagged, *shape: Any) -> Jagged:
    """Another shape of the same memory; the batch and the rows stay, -1 may stand for the rows."""
    sizes, at = _wanted(x, _given(shape), "view")
    return view_of(renamed(jagged(x._entries.view(sizes), x._rows, at), "ViewBackward0"), x)  # type: ignore[no-any-return]


@rule("reshape")
def reshape(x: Jagged, *shape: Any) -> Jagged:
    """Another shape, of the same memory where that is possible."""
    sizes, at = _wanted(x, _given(shape), "view")
    whole = contiguous(x) if x._rows.lengths is not None else x
    if whole is not x:
        sizes[at - 1] = whole._entries._layout.shape[whole._ragged_idx - 1]
    entries = whole._entries.reshape(sizes)
    made = jagged(entries, whole._rows, at)
    return view_of(made, x) if entries.data_ptr() == x._entries.data_ptr() else made  # type: ignore[no-any-return]


@rule("flatten")
def flatten(x: Jagged, start_dim: int = 0, end_dim: int = -1) -> Jagged:
    """Some dimensions as one, of those that aren't the batch's or the rows'."""
    a, b = wrap_dim(start_dim, x._layout.ndim), wrap_dim(end_dim, x._layout.ndim)
    if a == 0:
        raise RuntimeError("flatten(): not supported for NestedTensor on dim=0")
    if a <= x._ragged_idx <= b:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    at = x._ragged_idx - (b - a) * (b < x._ragged_idx)
    return jagged(x._entries.flatten(a - 1, b - 1), x._rows, at)


@rule("unflatten")
def unflatten(x: Jagged, dim: int, sizes: Sequence[int]) -> Jagged:
    """One dimension as several, of those that aren't the batch's or the rows'."""
    at = inner(x, dim, "unflatten")
    return jagged(x._entries.unflatten(at, sizes), x._rows, x._ragged_idx + (len(sizes) - 1) * (at < x._ragged_idx - 1))


@rule("expand", "expand_as", "view_as", "reshape_as")
def expand(x: Any, *size: Any, implicit: bool = False) -> Any:
    """Dimensions of size 1 made larger; the batch and the rows stay."""
    wanted = list(size[0].shape) if isinstance(size[0], Tensor) else _given(size)
    if not isinstance(x, Jagged):
        raise RuntimeError(f"expand(): cannot expand shape {tuple(x.shape)} -> {wanted}")
    shape = x.shape
    if len(wanted) != len(shape) or any(
        a != b and b != -1 for d, (a, b) in enumerate(zip(shape, wanted)) if d in (0, x._ragged_idx)
    ):
        raise RuntimeError(f"expand(): cannot expand shape {tuple(shape)} -> {wanted}")
    sizes = [-1 if d + 1 == x._ragged_idx else int(n) for d, n in enumerate(wanted[1:])]
    return x.like(x._entries.expand(sizes))


@rule("alias", "detach", "conj", "resolve_conj", "resolve_neg", "positive")
def alias(x: Jagged) -> Jagged:
    """The same memory."""
    return x.like(x._entries.alias())


# ---------------------------------------------------------------- copies and writes


@rule("contiguous")
def contiguous(x: Jagged, memory_format: Any = layouts.contiguous_format) -> Jagged:
    """The rows one after the other: the tensor itself if they lie so."""
    if x.is_contiguous():
        return x
    if x._rows.lengths is not None:
        made = jagged_from_list(row_views(x))
        made._rows.size = x._rows.size  # the same lengths
        return made
    return x.like(x._entries.contiguous())


@rule("clone")
def clone(x: Jagged, *, memory_format: Any = layouts.preserve_format) -> Jagged:
    """A copy."""
    if memory_format is layouts.contiguous_format and x._rows.lengths is not None:
        return contiguous(x)
    return x.like(x._entries.clone(memory_format=memory_format))


@rule("copy_")
def copy_(x: Any, src: Any, non_blocking: bool = False) -> Any:
    """Take on the elements of a tensor with the same rows."""
    if not (isinstance(x, Jagged) and isinstance(src, Jagged)):
        raise RuntimeError(
            f"copy_ only supports Nested to Nested tensors; got {'a nested' if isinstance(x, Jagged) else 'a dense'} "
            f"self and {'a nested' if isinstance(src, Jagged) else 'a dense'} src"
        )
    if x.shape != src.shape:
        raise RuntimeError("copy_ only supports Nested tensors that have same size and the exact same offset tensor.")
    x._entries.copy_(src._entries)
    return x


def _like(name: str) -> None:
    make = NAMESPACE[name]

    @rule(name)
    def like(x: Jagged, *args: Any, **kwargs: Any) -> Jagged:
        kwargs.pop("layout", None)
        return x.like(make(x._entries, *args, **kwargs))


for _name in ("empty_like", "zeros_like", "ones_like", "full_like", "randn_like", "rand_like", "randint_like", "bernoulli"):
    _like(_name)


@rule("new_empty", "new_zeros", "new_ones", "new_full")
def new(x: Jagged, *size: Any, **kwargs: Any) -> Any:
    """A number of this dtype. RuntimeError for another shape."""
    if list(size[0] if size and isinstance(size[0], (tuple, list)) else size):
        raise RuntimeError("new_empty() not supported for NJT with shape != ()")
    return x._entries.new_empty((), **kwargs)


@rule("apply_")
def apply_(x: Jagged, callable: Any) -> Jagged:
    """Replace each element by what a function of Python makes of it, outside the graph."""
    x._entries.detach().apply_(callable)
    return x


@rule("__setitem__", "index_put_", "index_put")
def setitem(x: Any, *args: Any, **kwargs: Any) -> Any:
    """RuntimeError: write to the values."""
    raise NotImplementedError("aten.index_put_.default")


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Jagged:
    """Tensors with the same rows, joined along a dimension which isn't ragged."""
    first = next(t for t in tensors if isinstance(t, Jagged))
    at = inner(first, dim, "cat")
    parts = [t if isinstance(t, Jagged) else expand_dense(t, first) for t in tensors]
    for t in parts:
        if t._rows.size != first._rows.size or t._ragged_idx != first._ragged_idx:
            raise RuntimeError("cat(): expected all nested tensors to have the same rows")
    return renamed(first.like(NAMESPACE["cat"]([t._entries for t in parts], at)), "CatBackward0")  # type: ignore[no-any-return]


def expand_dense(t: Tensor, like: Jagged) -> Jagged:
    """A dense tensor of as many dimensions, the size of whose rows is 1, repeated along them."""
    if t._layout.ndim != like._layout.ndim or t._layout.shape[like._ragged_idx] != 1:
        raise RuntimeError(f"cannot broadcast a tensor of shape {tuple(t.shape)} to the rows of {tuple(like.shape)}")
    return like.like(dense_rows(t, like))


def dense_rows(t: Tensor, like: Jagged) -> Tensor:
    """Of a dense tensor (batch or 1, ..., 1, ...), whose size along the rows is 1, the slice of its tensor for each row."""
    along = like._ragged_idx
    if t._layout.shape[0] == 1:
        return t.squeeze(0)
    return t.squeeze(along).index_select(0, row_numbers(like)).movedim(0, along - 1)  # type: ignore[no-any-return]


def row_numbers(x: Jagged) -> Tensor:
    """For each place along the rows, to which tensor it belongs; places in holes to the one before."""
    places = NAMESPACE["arange"](x._entries._layout.shape[x._ragged_idx - 1], device=x._rows.offsets.device)
    found = NAMESPACE["searchsorted"](x._rows.offsets.to(int64), places, right=True) - 1
    return found.clamp_(0, max(x._rows.count - 1, 0))  # type: ignore[no-any-return]


@rule("stack")
def stack(tensors: Sequence[Any], dim: int = 0) -> Jagged:
    """Tensors with the same rows, joined along a new dimension."""
    first = tensors[0]
    if wrap_dim(dim, first._layout.ndim + 1) == 0:
        raise RuntimeError("stack(): not supported for NestedTensor on dim=0")
    return cat([unsqueeze(t, dim) for t in tensors], dim)


@rule("__deepcopy__")
def deepcopy(x: Jagged, memo: dict[Any, Any]) -> Jagged:
    """A copy with the same rows, and its gradient."""
    if id(x) not in memo:
        memo[id(x)] = x.like(copy.deepcopy(x._entries, memo))
    return memo[id(x)]  # type: ignore[no-any-return]
