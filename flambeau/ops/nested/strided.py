"""Strided nested tensors: what can be asked of them, their views, copies and writes. Stands on tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.dtype import int64
from flambeau.base.geometry import wrap_dim
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nested.entries import CONVERSIONS, FACTS, convert, tell, write
from flambeau.ops.nested.tensor import Strided, packed, pieces, renamed, rule_of_strided, strided, view_of

rule = rule_of_strided

# ---------------------------------------------------------------- parts and facts


@rule("_nested_tensor_size")
def sizes(x: Strided) -> Tensor:
    """The size of each tensor: int64 (tensors, dimensions)."""
    return _table(x, x._sizes)


@rule("_nested_tensor_strides")
def strides(x: Strided) -> Tensor:
    """The strides of each tensor: int64 (tensors, dimensions)."""
    return _table(x, x._strides)


@rule("_nested_tensor_storage_offsets")
def starts(x: Strided) -> Tensor:
    """Where each tensor begins in the buffer: int64 (tensors,)."""
    return NAMESPACE["tensor"](x._starts, dtype=int64, device="cpu")  # type: ignore[no-any-return]


def _table(x: Strided, rows: Sequence[Sequence[int]]) -> Tensor:
    if not rows or not rows[0]:
        return NAMESPACE["empty"](0 if not rows else (len(rows), 0), dtype=int64, device="cpu")  # type: ignore[no-any-return]
    return NAMESPACE["tensor"]([list(row) for row in rows], dtype=int64, device="cpu")  # type: ignore[no-any-return]


@rule("values", "_nested_get_values")
def values(x: Strided) -> Tensor:
    """The buffer."""
    return x._entries.alias()


tell(rule, *FACTS, "data_ptr", "storage_offset", "_typed_storage")
convert(Strided, rule, *CONVERSIONS)
write(rule, "fill_", "zero_")


@rule("item")
def item(x: Strided) -> Any:
    """The only element."""
    if x.numel() != 1:
        raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    return pieces(x)[0].item()


@rule("__bool__", "is_nonzero")
def truth(x: Strided) -> bool:
    """Whether the only element isn't zero."""
    if x.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no' if not x.numel() else 'more than one'} value"
            f"{'s' if not x.numel() else ''} is ambiguous"
        )
    return bool(pieces(x)[0])


@rule("numpy", "__array__")
def numpy(x: Strided, *args: Any, **kwargs: Any) -> Any:
    """RuntimeError: it has no shape."""
    return x.size()


@rule("tolist")
def tolist(x: Strided) -> Any:
    """RuntimeError: it has no strides."""
    return x.stride()


@rule("is_same_size")
def is_same_size(x: Any, other: Any) -> bool:
    """Whether both are nested, of tensors of the same sizes."""
    if not (isinstance(x, Strided) and isinstance(other, Strided)):
        raise RuntimeError(
            "Expected both self and other to be nested tensors. "
            f"Self {'is' if isinstance(x, Strided) else 'is not'} nested. "
            f"While Other {'is' if isinstance(other, Strided) else 'is not'} nested."
        )
    return x._sizes == other._sizes


# ---------------------------------------------------------------- taking apart


@rule("unbind")
def unbind(x: Strided, dim: int = 0) -> tuple[Tensor, ...]:
    """The tensors, views of the buffer."""
    if dim != 0:
        raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    return tuple(pieces(x))


@rule("__iter__")
def iterate(x: Strided) -> Any:
    """The tensors one after the other."""
    return iter(pieces(x))


@rule("select")
def select(x: Strided, dim: int, index: int) -> Any:
    """One of the tensors, or that index of each of them; a view."""
    at = wrap_dim(dim, x._layout.ndim)
    if at == 0:
        count = len(x._sizes)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {count}")
        return pieces(x)[index]
    bounds = [size[at - 1] for size in x._sizes]
    for n in bounds:
        if not -n <= index < n:
            raise IndexError(
                f"index {index} is out of bounds for dimension {at - 1} of the {bounds.index(n)}th constituent "
                "tensor with "
                f"size {n}"
            )
    begins = [start + (index % n) * steps[at - 1] for start, n, steps in zip(x._starts, bounds, x._strides)]
    made = strided(x._entries, [_without(s, at - 1) for s in x._sizes], [_without(s, at - 1) for s in x._strides], begins)
    return view_of(made, x)


def _without(items: tuple[int, ...], at: int) -> tuple[int, ...]:
    return items[:at] + items[at + 1 :]


@rule("__getitem__")
def getitem(x: Strided, key: Any) -> Any:
    """Numbers, `...`, `:` and None; a number takes a tensor, or the same place in each."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(k, (Tensor, list)) for k in keys):
        raise x.refused("index", ())
    used = sum(k is not None and k is not Ellipsis for k in keys)
    untouched = range(0)
    if any(k is Ellipsis for k in keys):
        place = next(n for n, k in enumerate(keys) if k is Ellipsis)
        untouched = range(place, place + x._layout.ndim - used)
        keys[place : place + 1] = [slice(None)] * len(untouched)
    if used > x._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x._layout.ndim}")
    made: Any = x
    dim = 0
    for place, k in enumerate(keys):
        if not isinstance(made, Strided):
            return made[tuple(keys[place:])]
        if k is None:
            made = unsqueeze(made, dim)
            dim += 1
        elif isinstance(k, slice):
            if place not in untouched:
                raise made.refused("slice", (made, made._entries))
            dim += 1
        else:
            made = select(made, dim, k)
    return made


@rule("chunk")
def chunk(x: Strided, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Equal parts along the last dimension."""
    at = wrap_dim(dim, x._layout.ndim)
    if at != x._layout.ndim - 1:
        raise RuntimeError("Chunk for nested tensors is currently only supported for the last dimension.")
    if chunks <= 0:
        raise RuntimeError("chunk expects `chunks` to be greater than 0, got: " + str(chunks))
    if not x.is_contiguous():
        raise RuntimeError("chunk expects `self` to be contiguous.")
    size = x.size(at)
    if size % chunks:
        raise RuntimeError(
            "Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible by "
            "chunks, got: "
            f"{size} % {chunks} != 0"
        )
    return split_with_sizes(x, [size // chunks] * chunks, at)


@rule("split_with_sizes")
def split_with_sizes(x: Strided, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Parts of these sizes along the last dimension; views."""
    at = wrap_dim(dim, x._layout.ndim)
    if at != x._layout.ndim - 1:
        raise RuntimeError("split_with_sizes for nested tensors is currently only supported for the last dimension.")
    if not x.is_contiguous():
        raise RuntimeError("split_with_sizes expects `self` to be contiguous.")
    if not split_sizes:
        raise RuntimeError("split_with_sizes expects number of splits to be greater than 0, got: 0")
    size = x.size(at)
    if sum(split_sizes) != size:
        raise RuntimeError(
            "split_with_sizes expects split_sizes to sum exactly to "
            f"{size} (input tensor's size at dimension {dim}), but got split_sizes={list(split_sizes)}"
        )
    parts, begin = [], 0
    for length in split_sizes:
        begins = [start + begin * steps[-1] for start, steps in zip(x._starts, x._strides)]
        parts.append(view_of(strided(x._entries, [(*s[:-1], length) for s in x._sizes], x._strides, begins), x))
        begin += length
    return tuple(parts)


@rule("narrow")
def narrow(x: Strided, dim: int, start: int, length: int) -> Strided:
    """Some of the tensors; a view."""
    at = wrap_dim(dim, x._layout.ndim)
    if at != 0:
        raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {at}")
    if not x.is_contiguous():
        raise RuntimeError("narrow(): only contiguous nested tensors supported")
    count = len(x._sizes)
    if not -count <= start <= count:
        raise IndexError(f"start out of range (expected to be in range of [-{count}, {count}], but got {start})")
    start += count * (start < 0)
    if not 0 <= length <= count - start:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({count}).")
    chosen = slice(start, start + length)
    return view_of(strided(x._entries, x._sizes[chosen], x._strides[chosen], x._starts[chosen]), x)  # type: ignore[no-any-return]


# ---------------------------------------------------------------- views


@rule("transpose", "swapaxes", "swapdims")
def transpose(x: Strided, dim0: int, dim1: int) -> Strided:
    """Two dimensions of each tensor exchanged; a view."""
    a, b = wrap_dim(dim0, x._layout.ndim), wrap_dim(dim1, x._layout.ndim)
    if a == b:
        return x
    if a == 0 or b == 0:
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
    order = list(range(x._layout.ndim - 1))
    order[a - 1], order[b - 1] = order[b - 1], order[a - 1]
    made = strided(
        x._entries.alias(),
        [tuple(s[d] for d in order) for s in x._sizes],
        [tuple(s[d] for d in order) for s in x._strides],
        x._starts,
    )
    return view_of(renamed(made, "TransposeBackward0"), x)  # type: ignore[no-any-return]


Strided.mT = property(lambda x: transpose(x, -2, -1), doc="The last two dimensions exchanged.")


@rule("unsqueeze")
def unsqueeze(x: Strided, dim: int) -> Strided:
    """A dimension of size 1 in each tensor; a view."""
    at = wrap_dim(dim, x._layout.ndim + 1)
    if at == 0:
        raise RuntimeError(
            "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment if you need this "
            "feature, please open an issue on github describing your use case."
        )
    place = at - 1
    steps = [(*t[:place], s[place] * t[place] if place < len(s) else 1, *t[place:]) for s, t in zip(x._sizes, x._strides)]
    made = strided(x._entries.alias(), [(*s[:place], 1, *s[place:]) for s in x._sizes], steps, x._starts)
    return view_of(renamed(made, "UnsqueezeBackward0"), x)  # type: ignore[no-any-return]


@rule("squeeze")
def squeeze(x: Strided, dim: Any = None) -> Strided:
    """Dimensions of size 1 of all tensors left out; a view."""
    if dim is None:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, however "
            "you "
            "can use squeeze(Tensor self, int dim) instead if you need this feature, please open an issue on github "
            "describing your use case."
        )
    at = wrap_dim(dim, x._layout.ndim)
    if at == 0:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeezing dimension 0 is not supported at the moment if you need this "
            "feature, please open an issue on github describing your use case."
        )
    if any(size[at - 1] != 1 for size in x._sizes):
        return x
    if len(x._sizes[0]) == 1:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeezing a nested tensor of singleton tensors is not supported at the "
            "moment, "
            "if you need this feature, please open an issue on githubdescribing your use case."
        )
    made = strided(
        x._entries.alias(), [_without(s, at - 1) for s in x._sizes], [_without(s, at - 1) for s in x._strides], x._starts
    )
    return view_of(renamed(made, "SqueezeBackward1"), x)  # type: ignore[no-any-return]


def _wanted(x: Strided, shape: Sequence[int], name: str) -> list[tuple[int, ...]]:
    """The sizes of the tensors in a shape whose -1 keeps the old size, or is worked out."""
    count = len(x._sizes)
    if not shape:
        raise RuntimeError("shape '[]' is invalid for a nested tensor")
    if not count:
        raise RuntimeError("empty nested tensor cannot be reshaped")
    if shape[0] != count:
        raise RuntimeError(f"{name}: For now nested {name} cannot change or infer the implicit batch dimension")
    if list(shape[x._layout.ndim - 1 :]) != list(shape[1:]) and list(shape[1:]).count(-1) > 1 and len(shape) > x._layout.ndim:
        raise RuntimeError("only one dimension can be inferred" if shape[-1] != -1 else "nested tensor does not infer shape")
    made = []
    for size in x._sizes:
        wanted = []
        for place, n in enumerate(shape[1:]):
            if n < -1:
                raise RuntimeError(f"invalid shape dimension {n}")
            if n == -1 and place >= len(size):
                raise RuntimeError("nested tensor does not infer shape")
            wanted.append(size[place] if n == -1 else n)  # -1 keeps what the tensor has there
        if math.prod(wanted) != math.prod(size):
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {math.prod(size)}")
        made.append(tuple(wanted))
    return made


def _shape_of(given: tuple[Any, ...]) -> list[int]:
    return list(given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given)


@rule("view")
def view(x: Strided, *shape: Any) -> Strided:
    """Another shape of the same memory. -1 keeps the size that a dimension has; the batch's can't change."""
    wanted = _wanted(x, _shape_of(shape), "view")
    probe = NAMESPACE["empty"](0, device="meta")
    made = []
    for size, steps, new in zip(x._sizes, x._strides, wanted):
        piece = probe.new_empty_strided(size, steps)
        try:
            made.append(tuple(piece.view(new).stride()))
        except RuntimeError:
            raise RuntimeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
                "two contiguous subspaces). Use .reshape(...) instead."
            ) from None
    shown = renamed(strided(x._entries.alias(), wanted, made, x._starts), "ViewBackwardAutogradNestedTensor0")
    return view_of(shown, x)  # type: ignore[no-any-return]


@rule("reshape")
def reshape(x: Strided, *shape: Any) -> Strided:
    """Another shape, of the same memory where that is possible."""
    wanted = _wanted(x, _shape_of(shape), "reshape")
    try:
        return view(x, len(wanted), *[-1] * (len(wanted[0]))) if wanted == x._sizes else view(x, *_shape_of(shape))
    except RuntimeError:
        return strided(contiguous(x)._entries, wanted)


@rule("alias", "view_as", "detach", "conj", "resolve_conj", "resolve_neg")
def alias(x: Strided, *_: Any) -> Strided:
    """The same memory."""
    return x.like(x._entries.alias())


# ---------------------------------------------------------------- copies and writes


@rule("contiguous")
def contiguous(x: Strided, memory_format: Any = layouts.contiguous_format) -> Strided:
    """The tensors one after the other: the tensor itself if they lie so."""
    return x if x.in_order and x.fills_buffer else packed(pieces(x))


@rule("clone")
def clone(x: Strided, *, memory_format: Any = layouts.preserve_format) -> Strided:
    """A copy; in the same order, or contiguous."""
    if memory_format not in (layouts.preserve_format, layouts.contiguous_format, None):
        raise RuntimeError(
            f"Nested tensor clone supports Preserve and Contiguous memory formats, called clone with memory format: "
            f"{_spelled(memory_format)}"
        )
    if x.fills_buffer and (memory_format is layouts.preserve_format or x.in_order):
        return x.like(x._entries.clone())
    return packed(pieces(x))


def _spelled(memory_format: Any) -> str:
    return {"channels_last": "ChannelsLast", "channels_last_3d": "ChannelsLast3d"}.get(str(memory_format).rpartition(".")[2], "")


@rule("type")
def type_(x: Strided, *args: Any, **kwargs: Any) -> Any:
    """The values' type by name, or a conversion to another."""
    return x.like(x._entries.type(*args, **kwargs)) if args or kwargs else x._entries.type()


@rule("copy_")
def copy_(x: Any, src: Any, non_blocking: bool = False) -> Any:
    """Take on the elements of a tensor of the same sizes."""
    if not isinstance(src, Strided) or not isinstance(x, Strided):
        raise RuntimeError("get_nested_tensor_impl requires a NestedTensor.")
    if x._sizes != src._sizes:
        raise RuntimeError("copy_ only supports tensors that are the same size for Nested implementations")
    if x.in_order and src.in_order:
        x._entries.copy_(src._entries)
        return x
    for own, given in zip(pieces(x), pieces(src)):
        own.copy_(given)
    return x


def _like(name: str) -> None:
    make = NAMESPACE[name]

    @rule(name)
    def like(x: Strided, *args: Any, memory_format: Any = None, **kwargs: Any) -> Strided:
        if memory_format not in (None, layouts.preserve_format, layouts.contiguous_format):
            raise RuntimeError(
                "empty_like_nested only supports memory format Preserve or Contiguous, but got "
                f"{_spelled(memory_format)} instead."
            )
        made = make(x._entries, *args, **kwargs)
        return (
            x.like(made)
            if x.fills_buffer and memory_format is not layouts.contiguous_format
            else strided(make(packed(pieces(x))._entries, *args, **kwargs), x._sizes)
        )


for _name in ("empty_like", "zeros_like", "ones_like", "randn_like", "rand_like"):
    _like(_name)


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Strided:
    """The tensors of all, one after the other."""
    first = next(t for t in tensors if isinstance(t, Strided))
    at = wrap_dim(dim, first._layout.ndim)
    if not all(isinstance(t, Strided) for t in tensors):
        raise RuntimeError(
            "Expected each tensor in given list to be nested."
            if at == 0
            else "cat(): expected each tensor in given list to be nested"
        )
    if not all(t.is_contiguous() for t in tensors):
        raise RuntimeError(
            "Expected each tensor in given list to be contiguous."
            if at == 0
            else "cat(): only contiguous nested tensors are supported"
        )
    if at != 0:
        return _cat_inside(tensors, at)
    if len({t._layout.ndim for t in tensors}) > 1:
        raise RuntimeError("cat(): nested tensors of different numbers of dimensions")
    return strided(NAMESPACE["cat"]([t._entries for t in tensors]), [size for t in tensors for size in t._sizes])


def _cat_inside(tensors: Sequence[Strided], at: int) -> Strided:
    outside = [[s[: at - 1] + s[at:] for s in t._sizes] for t in tensors]
    if any(each != outside[0] for each in outside):
        raise RuntimeError(
            "cat(): expected all nested tensors to have matching ragged structures outside of the concatenated dim"
        )
    for t in tensors:
        ragged = [d for d in range(t._layout.ndim - 1) if len({s[d] for s in t._sizes}) > 1]
        if ragged not in ([], [0]) or at == 1:
            raise RuntimeError("cat(): only nested tensors with a single ragged dim next to the batch dim are supported")
    return packed([NAMESPACE["cat"](list(each), at - 1) for each in zip(*map(pieces, tensors))])
