"""Translations of what changes a tensor's shape and not its elements: reshape, permute, expand, and their like."""

from __future__ import annotations

from typing import Any

from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import SymbolicDim, Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import INT64_MAX, axes_of, each, unsupported


@translation("alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy", "lift", "_conj", "conj",
             "resolve_conj", "resolve_neg", "positive", "real", "requires_grad_", "_neg_view")  # fmt: skip
def identity(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
    """The tensor itself."""
    return x


@translation("view.default", "reshape", "_unsafe_view", "view_copy", "_reshape_copy", "_reshape_alias")
def view(b: Builder, x: Value, size: list[Any], *args: Any) -> Value:
    """A tensor in another shape."""
    return b.reshape(x, _with_rest(size))


def _with_rest(sizes: list[Any]) -> list[Any]:
    """The only size that isn't a number, as -1: then nothing needs to be worked out."""
    dynamic = [i for i, n in enumerate(sizes) if isinstance(n, Size)]
    if len(dynamic) == 1 and not any(isinstance(n, int) and n <= 0 for n in sizes):
        return [-1 if i == dynamic[0] else n for i, n in enumerate(sizes)]
    return sizes


@translation("view_as", "reshape_as")
def view_as(b: Builder, x: Value, other: Value) -> Value:
    """A tensor in another's shape."""
    return b.reshape(x, _with_rest(b.sizes(other)))


@translation("view.dtype")
def view_dtype(b: Builder, x: Value, dtype: Any) -> Value:
    """The bytes of a tensor as another dtype."""
    raise unsupported(b, "of a dtype: ONNX has no other readings of a tensor's bytes")


@translation("flatten", "ravel")
def flatten(b: Builder, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Dimensions made one."""
    if not x.rank:
        return b.reshape(x, [1])
    start, end = axes_of(x, [start_dim, end_dim])
    if start == end:
        return x
    sizes = b.sizes(x)
    product = 1
    for n in sizes[start : end + 1]:
        product = product * n
    return b.reshape(x, _with_rest([*sizes[:start], product, *sizes[end + 1 :]]))


@translation("unflatten")
def unflatten(b: Builder, x: Value, dim: int, sizes: list[Any]) -> Value:
    """A dimension made several."""
    dim %= x.rank
    return b.reshape(x, _with_rest([*b.sizes(x)[:dim], *sizes, *b.sizes(x)[dim + 1 :]]))


@translation("permute", "permute_copy")
def permute(b: Builder, x: Value, dims: list[int]) -> Value:
    """Dimensions in another order."""
    return b.transpose(x, axes_of(x, dims)) if dims else x


@translation("transpose.int", "swapaxes", "swapdims", "transpose_copy")
def transpose(b: Builder, x: Value, dim0: int, dim1: int) -> Value:
    """Two dimensions exchanged."""
    return b.swap(x, *axes_of(x, [dim0, dim1])) if x.rank else x


@translation("t", "numpy_T", "t_copy")
def t(b: Builder, x: Value) -> Value:
    """Dimensions from the last to the first."""
    return b.transpose(x, list(range(x.rank))[::-1])


@translation("mT", "mH", "adjoint", "matrix_H")
def matrices_transposed(b: Builder, x: Value) -> Value:
    """The last two dimensions exchanged."""
    return b.swap(x, -2, -1)


@translation("movedim", "moveaxis")
def movedim(b: Builder, x: Value, source: Any, destination: Any) -> Value:
    """Dimensions at other places."""
    taken, places = axes_of(x, source), axes_of(x, destination)
    rest = iter(d for d in range(x.rank) if d not in taken)
    return b.transpose(x, [taken[places.index(i)] if i in places else next(rest) for i in range(x.rank)])


@translation("unsqueeze", "unsqueeze_copy")
def unsqueeze(b: Builder, x: Value, dim: int) -> Value:
    """A new dimension."""
    return b.unsqueeze(x, dim % (x.rank + 1))


@translation("squeeze", "squeeze_copy")
def squeeze(b: Builder, x: Value, dim: Any = None) -> Value:
    """Without dimensions of size 1."""
    gone = [d for d in axes_of(x, dim) if x.rank and x.shape[d] == 1]
    return b.squeeze(x, *gone) if gone else x


@translation("expand", "broadcast_to", "expand_copy")
def expand(b: Builder, x: Value, size: list[Any], *, implicit: bool = False) -> Value:
    """Dimensions of size 1 repeated."""
    shape = [1] * (len(size) - x.rank) + list(x.shape or [])
    sizes = [1 if isinstance(n, int) and n == -1 else n for n in size]
    if all(isinstance(n, int) and n in (1, m) for n, m in zip(sizes, shape)):
        return b.unsqueeze(x, *range(len(size) - x.rank)) if len(size) > x.rank else x
    return b.op("Expand", x, sizes)


@translation("expand_as")
def expand_as(b: Builder, x: Value, other: Value) -> Value:
    """Expanded to another's shape."""
    return b.op("Expand", x, b.sizes(other))


@translation("broadcast_tensors")
def broadcast_tensors(b: Builder, tensors: list[Value]) -> tuple[Value, ...]:
    """Tensors expanded to the shape that they have together."""
    rank = max(x.rank for x in tensors)
    sizes: list[Any] = [1] * rank
    for x in tensors:
        for i, n in enumerate(b.sizes(x), rank - x.rank):
            if not (isinstance(n, int) and n == 1):
                sizes[i] = n
    return tuple(expand(b, x, sizes) for x in tensors)


@translation("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(b: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonal of matrices: their rows one after another, of which every (columns + 1)th element is taken."""
    dim1, dim2 = axes_of(x, [dim1, dim2])
    rest = [d for d in range(x.rank) if d not in (dim1, dim2)]
    x = b.transpose(x, [*rest, dim1, dim2])
    rows, columns = b.size(x, -2), b.size(x, -1)
    count = b.smaller(rows, columns - offset) if offset >= 0 else b.smaller(rows + offset, columns)
    first = offset if offset >= 0 else -offset * columns
    flat = b.reshape(x, _with_rest([*b.sizes(x)[:-2], rows * columns]))
    flat.shape = [*x.shape[:-2], 1]
    return b.op("Gather", flat, b.range(first, first + count * (columns + 1), columns + 1), axis=len(rest))


@translation("pixel_shuffle")
def pixel_shuffle(b: Builder, x: Value, upscale_factor: int) -> Value:
    """Channels moved into the image."""
    return _in_images(b, x, lambda y: b.op("DepthToSpace", y, blocksize=upscale_factor, mode="CRD"))


@translation("pixel_unshuffle")
def pixel_unshuffle(b: Builder, x: Value, downscale_factor: int) -> Value:
    """The image's pixels moved into channels."""
    r = downscale_factor

    def write(y: Value) -> Value:
        channels, height, width = b.sizes(y)[1:]
        y = b.reshape(y, [b.size(y, 0), channels, height // r, r, width // r, r])
        y = b.transpose(y, [0, 1, 3, 5, 2, 4])
        return b.reshape(y, [b.size(y, 0), channels * r * r, height // r, width // r])

    return _in_images(b, x, write)


@translation("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(b: Builder, x: Value, groups: int) -> Value:
    """Channels of the groups in turn."""
    sizes = b.sizes(x)
    split = b.reshape(x, [sizes[0], groups, sizes[1] // groups, *sizes[2:]])
    return b.reshape(b.swap(split, 1, 2), sizes)


def _in_images(b: Builder, x: Value, write: Any) -> Value:
    """What an operator on (N, C, H, W) makes of (..., C, H, W)."""
    if x.rank == 4:
        return write(x)
    if x.rank == 3:
        return b.squeeze(write(b.unsqueeze(x, 0)), 0)
    raise unsupported(b, "of more than 4 dimensions; flatten the first ones")


@translation("atleast_1d", "atleast_2d", "atleast_3d")
def atleast(b: Builder, x: Value) -> Value:
    """With the dimensions that are missing."""
    wanted = int(b.target.partition("atleast_")[2][0])
    if wanted == 3 and x.rank:
        return b.unsqueeze(x, 0, 2) if x.rank == 1 else b.unsqueeze(x, 2) if x.rank == 2 else x
    return b.unsqueeze(x, *range(wanted - x.rank)) if x.rank < wanted else x


def halves(b: Builder, x: Value, dim: int) -> tuple[Value, Value]:
    """The two halves of a tensor along a dimension."""
    shape = list(x.shape or [])
    if shape and isinstance(shape[dim], int):
        shape[dim] //= 2
    left, right = b.op("Split", x, axis=dim, num_outputs=2, outputs=2, shape=shape or None)
    right.shape = left.shape
    return left, right


@translation("unfold")
def unfold(b: Builder, x: Value, dimension: int, size: int, step: int) -> Value:
    """Windows along a dimension, as a last one."""
    dim = dimension % max(x.rank, 1)
    count = (b.size(x, dim) - size) // step + 1
    starts = b.op("Mul", b.range(0, count), step)
    places = b.op("Add", b.unsqueeze(starts, 1), list(range(size)))
    made = b.op("Gather", x, places, axis=dim, shape=[SymbolicDim(None)] * (x.rank + 1))
    return b.transpose(made, [*[d for d in range(x.rank + 1) if d != dim + 1], dim + 1])


@translation("tile", "repeat")
def repeat(b: Builder, x: Value, repeats: list[Any]) -> Value:
    """The tensor several times along its dimensions."""
    repeats = [1] * (x.rank - len(repeats)) + list(repeats)
    if len(repeats) > x.rank:
        x = b.unsqueeze(x, *range(len(repeats) - x.rank))
    return b.op("Tile", x, repeats)


@translation("roll")
def roll(b: Builder, x: Value, shifts: Any, dims: Any = ()) -> Value:
    """Elements moved along dimensions, around the end."""
    if dims in ((), []):
        return b.reshape(roll(b, b.reshape(x, [-1]), shifts, 0), b.sizes(x))
    for shift, dim in zip(each(shifts, 1), each(dims, 1)):
        size = b.size(x, dim)
        if isinstance(size, int) and isinstance(shift, int):
            if not size or not shift % size:
                continue
            shift %= size
        shape = x.shape
        x = b.op("Concat", b.slice(x, dim, -shift, INT64_MAX), b.slice(x, dim, 0, -shift), axis=dim, shape=shape)
    return x


@translation("flip", "fliplr", "flipud")
def flip(b: Builder, x: Value, dims: Any = None) -> Value:
    """Dimensions from their end."""
    if dims is None:
        dims = [1 if "fliplr" in b.target else 0]
    dims = axes_of(x, dims)
    return b.op("Slice", x, [-1] * len(dims), [-(2**63) + 1] * len(dims), dims, [-1] * len(dims)) if dims else x


@translation("rot90")
def rot90(b: Builder, x: Value, k: int = 1, dims: Any = (0, 1)) -> Value:
    """Turned by quarters."""
    first, second = axes_of(x, list(dims))
    k %= 4
    if k == 2:
        return flip(b, x, [first, second])
    if not k:
        return x
    return b.swap(flip(b, x, [second]), first, second) if k == 1 else flip(b, b.swap(x, first, second), [second])
