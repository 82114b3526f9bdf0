"""Several views of one tensor at once: split, chunk, unbind, tensor_split and their relatives.

The parts of one call share a node, which joins their gradients with `cat` or `stack`. Stands on core.operator.view.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import int64
from flambeau.base.layout import Layout, register_cache
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.autograd.inplace import MULTI_VIEW, stand_apart
from flambeau.core.autograd.node import MultiNode
from flambeau.core.modes.modes import active, local
from flambeau.core.operator import arguments as wrong
from flambeau.core.operator import view
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.publishing import NAMESPACE, public
from flambeau.core.operator.view import plain
from flambeau.core.tensor import storage
from flambeau.core.tensor.storage import alias
from flambeau.core.tensor.tensor import Tensor, tensor_from, view_of

# ---------------------------------------------------------------- gradients


class _PartsBackward(MultiNode):
    """A recorded split into several views."""

    __slots__ = ()

    def _filled(self, gradients: Sequence[Any], shapes: Sequence[Sequence[int]]) -> list[Any]:
        """The parts' gradients, zeros for those nobody asked for."""
        known = next(gradient for gradient in gradients if gradient is not None)
        return [
            known.new_zeros(shape) if gradient is None else gradient for gradient, shape in zip(gradients, shapes, strict=True)
        ]


class SplitBackward0(_PartsBackward):
    """saved: dimension, sizes of the parts."""

    __slots__ = ()

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        dim, sizes = self.saved  # type: ignore[misc]
        shape = self.inputs[0].shape  # type: ignore[union-attr]
        shapes = [(*shape[:dim], size, *shape[dim + 1 :]) for size in sizes]
        return (NAMESPACE["cat"](self._filled(gradients, shapes), dim),)


class SplitWithSizesBackward0(SplitBackward0):
    """A split whose sizes the caller gave."""

    __slots__ = ()


class UnbindBackward0(_PartsBackward):
    """saved: dimension."""

    __slots__ = ()

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        (dim,) = self.saved  # type: ignore[misc]
        shape = self.inputs[0].shape  # type: ignore[union-attr]
        part = (*shape[:dim], *shape[dim + 1 :])
        return (NAMESPACE["stack"](self._filled(gradients, [part] * shape[dim]), dim),)


def _record_parts(parts: list[Any], source: Any, kind: type[MultiNode], saved: tuple[Any, ...]) -> None:
    creation = MULTI_VIEW, source._storage.writes
    if source._node is None or source._storage.inference:
        for part in parts:
            part._creation = creation
    elif local.grad:
        node = kind(len(parts), ((source._node, source._index),), (source._layout,), saved)
        for index, part in enumerate(parts):
            part._creation, part._node, part._index = creation, node, index
    else:
        for part in parts:
            stand_apart(part, MULTI_VIEW)


def _need_room(count: int) -> None:
    """RuntimeError for so many parts that there is no memory for them: asked before the first is made."""
    if count > MANY_PARTS:
        storage.empty(64 * count)


MANY_PARTS = 1 << 20
_places: dict[Any, tuple] = register_cache({})  # by the call: layouts and offsets of the parts, and what their node saves


def _split_sizes(input: Any, sizes: Sequence[int], dim: int, kind: type[MultiNode], call: tuple | None = None) -> tuple[Any, ...]:
    """The parts; call: what the plain function was called with, under which their places are kept."""
    layout, start = input._layout, 0
    made: list[tuple[Layout, int]] = []
    for size in sizes:
        part = Layout.of((*layout.shape[:dim], size, *layout.shape[dim + 1 :]), layout.strides, layout.dtype, layout.device)
        made.append((part.with_pending(layout.pending) if layout.pending else part, start * layout.strides[dim]))
        start += size
    places = (made, kind, (dim, tuple(sizes)))
    if call is not None and layout.answering is None:
        _places[call] = places
    return _parts(input, places)


def _parts(input: Any, places: tuple) -> tuple[Any, ...]:
    made, kind, saved = places
    at = input._offset
    parts = [view_of(input, at + offset, layout) for layout, offset in made]
    _record_parts(parts, input, kind, saved)
    return tuple(parts)


@public(asks="split", written_in_python=True, jvp=LINEAR)
def split(
    tensor: Any,
    split_size_or_sections: int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    split_size: int | Sequence[int] | None = None,
) -> tuple[Any, ...]:
    """Parts of one size (the last may be smaller), or of the given sizes, along a dimension."""
    if split_size is not None:
        split_size_or_sections = split_size
    elif split_size_or_sections is None:
        raise TypeError("split() missing 1 required positional argument: 'split_size_or_sections'")
    if split_size_or_sections.__class__ is int and dim.__class__ is int:
        places = _places.get((tensor._layout, "split", split_size_or_sections, dim))
        if places is not None:
            return _parts(tensor, places)
    elif isinstance(split_size_or_sections, (tuple, list)):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    wrong.only_ints(split_size_or_sections, dim)
    layout, size, dim = tensor._layout, operator.index(split_size_or_sections), operator.index(dim)
    if not layout.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    place = geometry.wrap_dim(dim, layout.ndim)
    length = layout.shape[place]
    if size == 0:
        if length:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}")
        return _split_sizes(tensor, (0,), place, SplitBackward0)
    count = max((length + size - 1) // size, 1)
    _need_room(count)
    return _split_sizes(
        tensor, [size] * (count - 1) + [length - size * (count - 1)], place, SplitBackward0, (layout, "split", size, dim)
    )


@public(jvp=LINEAR)
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Parts of the given sizes along a dimension, which they must fill."""
    try:
        if dim.__class__ is not int:
            wrong.only_ints(dim)
        layout = input._layout
        if not layout.ndim:
            raise RuntimeError("split_with_sizes expects at least a 1-dimensional tensor")
        place = geometry.wrap_dim(dim, layout.ndim)
        sizes = list(plain(tuple(split_sizes)))
        if any(size < 0 for size in sizes):
            raise RuntimeError(
                f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
            )
        if sum(sizes) != layout.shape[place]:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {layout.shape[place]} (input "
                f"tensor's size at dimension {place}), but got split_sizes={sizes}"
            )
        return _split_sizes(input, sizes, place, SplitWithSizesBackward0)
    except Exception as error:
        filter_traceback(error)
        raise


@public(jvp=LINEAR)
def chunk(input: Any, chunks: int, dim: int = 0, *, axis: int | None = None) -> tuple[Any, ...]:
    """At most `chunks` parts of equal size (the last may be smaller) along a dimension."""
    dim = dim if axis is None else axis
    layout = input._layout
    if chunks.__class__ is int and dim.__class__ is int:
        places = _places.get((layout, "chunk", chunks, dim))
        if places is not None and not active.count:  # a mode sees the split that it is
            return _parts(input, places)
    wrong.only_ints(chunks, dim)
    chunks, dim = operator.index(chunks), operator.index(dim)
    if not layout.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    place = geometry.wrap_dim(dim, layout.ndim)
    size = (layout.shape[place] + chunks - 1) // chunks
    if size == 0:
        _need_room(chunks)
        return _split_sizes(input, [0] * chunks, place, SplitWithSizesBackward0)
    made = split(input, size, place)
    if layout.answering is None:
        _places[layout, "chunk", chunks, dim] = _places[layout, "split", size, place]
    return made


class UnsafeSplitBackward0(SplitBackward0):
    """A split whose parts may be written to."""

    __slots__ = ()


class UnsafeSplitWithSizesBackward0(SplitBackward0):
    """A split by sizes whose parts may be written to."""

    __slots__ = ()


_UNSAFE = {SplitBackward0: UnsafeSplitBackward0, SplitWithSizesBackward0: UnsafeSplitWithSizesBackward0}


def _unsafe(split_function: Callable[..., Any]) -> Callable[..., Any]:
    """The variant whose parts are no views for autograd: each may be written to if the input isn't used again."""

    def split_apart(input: Any, *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
        parts = split_function(input.detach(), *arguments, **keywords)
        parts = tuple(tensor_from(alias(part._storage), part._offset, part._layout) for part in parts)
        if input._node is not None and local.grad:
            like = split_function(input, *arguments, **keywords)[0]._node
            node = _UNSAFE[type(like)](len(parts), like.edges, like.inputs, like.saved)
            for index, part in enumerate(parts):
                part._node, part._index = node, index
        return parts

    split_apart.__name__ = split_apart.__qualname__ = "unsafe_" + split_function.__name__
    split_apart.__doc__ = f"`{split_function.__name__}` whose parts may be written to; the input must not be used again."
    return public(split_apart, jvp=LINEAR)  # type: ignore[no-any-return]


unsafe_split = _unsafe(split)
unsafe_split_with_sizes = _unsafe(split_with_sizes)
unsafe_chunk = _unsafe(chunk)


@public(jvp=LINEAR)
def unbind(input: Any, dim: int = 0, *, axis: int | None = None) -> tuple[Any, ...]:
    """The positions of a dimension, one tensor each, without that dimension."""
    dim = dim if axis is None else axis
    layout = input._layout
    places = _places.get((layout, "unbind", dim))
    if places is not None and dim.__class__ is int:
        return _parts(input, places)
    wrong.only_ints(dim)
    dim = operator.index(dim)
    if not layout.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    place = geometry.wrap_dim(dim, layout.ndim)
    _need_room(layout.shape[place])
    made = Layout.of(
        layout.shape[:place] + layout.shape[place + 1 :],
        layout.strides[:place] + layout.strides[place + 1 :],
        layout.dtype,
        layout.device,
    ).with_pending(layout.pending)
    places = ([(made, index * layout.strides[place]) for index in range(layout.shape[place])], UnbindBackward0, (place,))
    if layout.answering is None:
        _places[layout, "unbind", dim] = places
    return _parts(input, places)


@public(jvp=LINEAR)
def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Any, ...]:
    """Parts along a dimension: as equal as can be, if a number of them is given, or cut at the given positions."""
    if indices_or_sections is None:
        indices_or_sections = sections if indices is None else indices
        if indices_or_sections is None:
            raise wrong.no_combination("tensor_split", (input,))
    layout = input._layout
    if indices_or_sections.__class__ is int and dim.__class__ is int and input._node is None and not active.count:
        places = _places.get((layout, "tensor_split", indices_or_sections, dim))
        if places is not None:
            return tuple([view_of(input, input._offset + offset, made) for made, offset in places])
    wrong.only_ints(dim)
    dim = operator.index(dim)
    if not layout.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    place = geometry.wrap_dim(dim, layout.ndim)
    given = indices_or_sections
    if isinstance(given, Tensor):
        if given._layout.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                f"one-dimensional tensor, but got a tensor with {given._layout.ndim} dims"
            )
        if given._layout.dtype is not int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{given._layout.dtype.scalar_name}"
            )
        if given.device.type != "cpu":
            raise RuntimeError(f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {given.device}")
        given = given.tolist()
    length = layout.shape[place]
    if isinstance(given, (tuple, list)):
        cuts = [0, *plain(tuple(given)), length]
    else:
        if not wrong.is_int(given):
            raise wrong.no_combination("tensor_split", (input, given))
        if given <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {given}")
        _need_room(given)
        least, more = divmod(length, given)
        cuts = [index * least + min(index, more) for index in range(given + 1)]
    parts = tuple([view.slice_(input, place, start, end, 1) for start, end in itertools.pairwise(cuts)])
    if given.__class__ is int and layout.answering is None:
        _places[layout, "tensor_split", given, dim] = tuple([(x._layout, x._offset - input._offset) for x in parts])
    return parts


def _named_split(name: str, least: int, dim_of: Callable[[int], int]) -> Callable[..., Any]:
    def splitter(input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Any, ...]:
        if indices_or_sections is None:
            indices_or_sections = sections if indices is None else indices
        ndim = input._layout.ndim
        if ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!"
            )
        if not isinstance(indices_or_sections, (tuple, list)) and not wrong.is_int(indices_or_sections):
            raise wrong.no_combination(name, (input, indices_or_sections))
        dim = dim_of(ndim)
        if isinstance(indices_or_sections, int):
            size = input._layout.shape[dim]
            if indices_or_sections <= 0 or size % indices_or_sections:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                    f"dimension {size} is not divisible by the split_size {indices_or_sections}!"
                )
        return tensor_split(input, indices_or_sections, dim)

    splitter.__name__ = splitter.__qualname__ = name
    splitter.__doc__ = f"`tensor_split` along the {('horizontal', 'vertical', 'depth')['hvd'.index(name[0])]} dimension."
    public(splitter)
    return splitter


hsplit = _named_split("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
vsplit = _named_split("vsplit", 2, lambda ndim: 0)
dsplit = _named_split("dsplit", 3, lambda ndim: 2)
