"""Views and reshapes: reshape, transpose, permute, slice and their relatives; ops.views.split has the splits,
ops.views.expand expand.

Each operator is its geometry (base.geometry) and its gradient, the inverse view. Stands on core.operator.view; the functions
attach themselves to the namespace and to Tensor.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import bool_
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import CONJUGATE, Layout, contiguous_format, register_cache
from flambeau.base.naming import named
from flambeau.base.tracebacks import api_boundary, filter_traceback
from flambeau.base.warn import warn_once
from flambeau.codegen.runtime.launch import rebound
from flambeau.core.autograd.inplace import AsStridedBackward0, check_history, refuse_write, visible_base
from flambeau.core.autograd.node import rename
from flambeau.core.modes import overrides
from flambeau.core.modes.modes import local
from flambeau.core.operator import arguments as wrong
from flambeau.core.operator import view as views
from flambeau.core.operator.facets import LINEAR, described
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS, public
from flambeau.core.operator.view import declare, embed, node_class, plain, remember
from flambeau.core.tensor import indexing
from flambeau.core.tensor.tensor import Tensor, tensor_from, view_of
from flambeau.ops.views import split as _split  # noqa: F401 - registers the splits, which belong to this family


def given_sizes(function: str, argument: str, given: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes or dimensions passed one by one or as one sequence."""
    try:
        apart = True
        if len(given) == 1 and given[0].__class__ is not int:
            first = given[0]
            if isinstance(first, (tuple, list)):
                given, apart = tuple(first), False
            else:
                given = (_integer(function, argument, first),)
        elif not given:
            raise TypeError(f'{function}() missing 1 required positional arguments: "{argument}"')
        for size in given:
            if size.__class__ is not int:
                return wrong.ints(function, argument, given, apart)
        return given
    except Exception as error:
        filter_traceback(error)
        raise


def _integer(function: str, argument: str, given: Any) -> int:
    if wrong.is_int(given):
        return operator.index(given)
    raise wrong.refused(function, argument, "tuple of ints", given, 1)


# ---------------------------------------------------------------- shape


view_to = declare(
    "view", "ViewBackward0", geometry.view_geometry, lambda gradient, layout, sizes: gradient.reshape(layout.shape), ("size",)
)
_reshape_alias = declare(
    "reshape",
    "ReshapeAliasBackward0",
    geometry.view_geometry,
    lambda gradient, layout, sizes: gradient.reshape(layout.shape),
    ("size",),
)
_unsafe_view_node = node_class("UnsafeViewBackward0", lambda gradient, layout: gradient.reshape(layout.shape))


@public(namespace=False, jvp=LINEAR)
def view(self: Any, *size: Any, dtype: DType | None = None, **keywords: Any) -> Any:
    """The same elements in another shape (one size may be -1), or the same bytes as another dtype; no copy.

    Raises RuntimeError where that takes a copy.
    """
    if len(size) == 1 and size[0].__class__ is not int:
        first = size[0]
        if isinstance(first, DType):
            return view_dtype(self, first)
        if isinstance(first, (tuple, list)):
            return view_to(self, tuple(first))
        if not hasattr(first, "__index__"):
            raise _no_overload("view", size)
    elif not size:
        if "size" in keywords:
            return view_to(self, tuple(keywords["size"]))
        if isinstance(dtype, DType):
            return view_dtype(self, dtype)
        raise _no_overload("view", size) if dtype is None else wrong.no_combination("view", (), {"dtype": dtype})
    return view_to(self, size)


def _no_overload(name: str, given: tuple[Any, ...]) -> TypeError:
    kinds = ", ".join(type(item).__name__ for item in given)
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({kinds}), but expected one of:\n"
        " * (torch.dtype dtype)\n * (tuple of ints size)\n"
    )


def view_dtype(input: Any, dtype: DType) -> Any:
    """The same bytes as elements of another type. In PyTorch's eyes no view: no gradient flows through, and it has no base."""
    layout = input._layout
    own = layout.dtype
    if layout.pending:
        which = "conjugate view tensors" if layout.pending & CONJUGATE else "tensors with negative bit set"
        raise RuntimeError(f"torch.Tensor.view is not supported for {which} when converting to a different dtype.")
    if dtype is own:
        return tensor_from(input._storage, input._offset, layout)
    shape, strides, offset = layout.shape, layout.strides, input._offset
    words = f"to view {own.scalar_name} as {dtype.scalar_name} (different element sizes)"
    if own.itemsize != dtype.itemsize:
        if not shape:
            raise RuntimeError(f"self.dim() cannot be 0 {words}")
        if strides[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {words}, but got {strides[-1]}")
        if own.itemsize > dtype.itemsize:
            ratio = own.itemsize // dtype.itemsize
            shape, offset = (*shape[:-1], shape[-1] * ratio), offset * ratio
            strides = (*[stride * ratio for stride in strides[:-1]], 1)
        else:
            ratio = dtype.itemsize // own.itemsize
            if shape[-1] % ratio:
                raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {words}, but got {shape[-1]}")
            if offset % ratio:
                raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} {words}, but got {offset}")
            for dim, stride in enumerate(strides[:-1]):
                if stride % ratio:
                    raise RuntimeError(f"self.stride({dim}) must be divisible by {ratio} {words}, but got {stride}")
            shape, offset = (*shape[:-1], shape[-1] // ratio), offset // ratio
            strides = (*[stride // ratio for stride in strides[:-1]], 1)
    return tensor_from(input._storage, offset, Layout.of(shape, strides, dtype, layout.device))


def _unsafe_view(self: Any, size: tuple[int, ...]) -> Any:
    """A contiguous tensor that nobody else holds, in another shape: no view, as its memory is its own."""
    layout = self._layout
    made = tensor_from(self._storage, 0, Layout.contiguous(size, layout.dtype, layout.device))
    if self._node is not None:
        made._node = _unsafe_view_node(((self._node, self._index),), (layout,))
    return made


def _reshape(input: Any, sizes: tuple[int, ...]) -> Any:
    try:
        layout = input._layout
        if layout.is_contiguous:
            return view_to(input, sizes)
        shape = geometry.infer_size(plain(sizes), layout.numel)
        if geometry.reshape_strides(layout.shape, layout.strides, shape) is not None:
            return _reshape_alias(input, shape)
        copy = input.clone(memory_format=contiguous_format)
        if layout.flavor is not None:  # its memory is not a plain tensor's: all examples', or a value's and a tangent's
            return view_to(copy, shape)
        return _unsafe_view(copy, shape)
    except Exception as error:
        filter_traceback(error)
        raise


@described(jvp=LINEAR)
def reshape(input: Any, shape: Sequence[int]) -> Any:
    """The same elements in another shape; one size may be -1. A view where possible, a copy otherwise."""
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"reshape(): argument 'shape' (position 2) must be tuple of ints, not {type(shape).__name__}")
    if not isinstance(input, Tensor):
        if overrides.any_override((input,)):
            return overrides.dispatch(reshape, (input, shape), {})
        raise wrong.refused("reshape", "input", "Tensor", input, 1)
    return _reshape(input, tuple(shape))


NAMESPACE["reshape"] = reshape


@described(jvp=LINEAR)
@named("reshape")
def _reshape_method(self: Any, *shape: Any, **keywords: Any) -> Any:
    """The same elements in another shape; one size may be -1. A view where possible, a copy otherwise."""
    given = (keywords["shape"],) if "shape" in keywords else shape
    return _reshape(self, given_sizes("reshape", "shape", given))


Tensor.reshape = _reshape_method  # type: ignore[attr-defined]


@public(namespace=False, jvp=LINEAR)
def view_as(self: Any, other: Tensor) -> Any:
    """`view` in the shape of another tensor."""
    try:
        return view_to(self, other._layout.shape)
    except AttributeError as error:
        wrong.blame(error)
        raise


@public(namespace=False, jvp=LINEAR)
def reshape_as(self: Any, other: Any) -> Any:
    """`reshape` in the shape of another tensor."""
    return _reshape(self, other._layout.shape)


_flattened: dict[Any, tuple[int, ...] | None] = register_cache({})


@api_boundary
def _flat_shape(shape: tuple[int, ...], start_dim: int, end_dim: int) -> tuple[int, ...] | None:
    """The shape with these dimensions as one; None where that changes nothing."""
    start, end = geometry.wrap_dim(start_dim, len(shape)), geometry.wrap_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and shape:
        return None
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


@public(jvp=LINEAR)
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions start_dim to end_dim as one; a zero-dim tensor gets one dimension."""
    layout = input._layout
    if start_dim.__class__ is not int or end_dim.__class__ is not int:
        wrong.only_ints(start_dim, end_dim)
        start_dim, end_dim = plain((start_dim, end_dim))
    try:
        shape = _flattened[layout, start_dim, end_dim]
    except (KeyError, TypeError):
        pass
    else:
        return input if shape is None else _reshape(input, shape)
    shape = _flattened[layout, start_dim, end_dim] = _flat_shape(layout.shape, start_dim, end_dim)
    return input if shape is None else _reshape(input, shape)


@public
def ravel(input: Any) -> Any:
    """All elements in one dimension."""
    return input.contiguous().view(-1)


@public(written_in_python=True)
def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """One dimension as several of these sizes; one may be -1."""
    layout = input._layout
    place = geometry.wrap_dim(dim, layout.ndim)
    sizes = plain(tuple(sizes))
    if not layout.ndim:
        raise RuntimeError("unflatten got an unexpected error:\nDimension specified as 0 but tensor has no dimensions")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    size = layout.shape[place]
    try:
        filled = geometry.infer_size(sizes, size)
    except RuntimeError as error:
        if "only one" in str(error):
            raise RuntimeError(f"unflatten got an unexpected error:\n{error}") from None
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {place} ({size}) in the input tensor"
        ) from None
    return view_to(input, (*layout.shape[:place], *filled, *layout.shape[place + 1 :]))


_squeeze_all = declare(
    "squeeze",
    "SqueezeBackward0",
    lambda shape, strides: geometry.squeeze_geometry(shape, strides, None),
    lambda gradient, layout: gradient.reshape(layout.shape),
)


def _squeeze_one_geometry(shape: geometry.Shape, strides: geometry.Shape, dim: int) -> geometry.Geometry:
    return geometry.squeeze_geometry(shape, strides, (dim,))


_squeeze_one = declare(
    "squeeze", "SqueezeBackward1", _squeeze_one_geometry, lambda gradient, layout, dim: gradient.reshape(layout.shape), ("dim",)
)
_squeeze_some = declare(
    "squeeze",
    "SqueezeBackward2",
    geometry.squeeze_geometry,
    lambda gradient, layout, dims: gradient.reshape(layout.shape),
    ("dim",),
)


@public
def squeeze(input: Any, dim: int | Sequence[int] | None = None, *, axis: int | Sequence[int] | None = None) -> Any:
    """Without the dimensions of size 1: all of them, or `dim` (an int or several) where its size is 1."""
    dim = dim if axis is None else axis
    if dim is None:
        return _squeeze_all(input)
    return _squeeze_some(input, tuple(dim)) if isinstance(dim, (tuple, list)) else _squeeze_one(input, dim)


@public
def unsqueeze(input: Any, dim: int = wrong.MISSING, *, axis: int | None = None) -> Any:
    """With a new dimension of size 1 at `dim`."""
    if dim is wrong.MISSING:
        if axis is None:
            raise TypeError('unsqueeze() missing 1 required positional arguments: "dim"')
        dim = axis
    return views.unsqueeze(input, dim)


# ---------------------------------------------------------------- order of dimensions

_transpose = declare(
    "transpose",
    "TransposeBackward0",
    geometry.transpose_geometry,
    lambda gradient, layout, dim0, dim1: _transpose(gradient, dim0, dim1),
    ("dim0", "dim1"),
)


@public(names=("swapdims",))
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions swapped."""
    return _transpose(input, dim0, dim1)


_transpose.public, transpose.as_view = transpose, _transpose  # overriding classes are told that the first was called


@public
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Two dimensions swapped, by NumPy's name."""
    return _transpose(input, axis0, axis1)


def _t_geometry(shape: geometry.Shape, strides: geometry.Shape) -> geometry.Geometry:
    if len(shape) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {len(shape)}D")
    return shape[::-1], strides[::-1], 0


_t = declare("t", "TBackward0", _t_geometry, lambda gradient, layout: _t(gradient))


@public
def t(input: Any) -> Any:
    """A matrix transposed; vectors and numbers stay as they are. Raises RuntimeError above two dimensions."""
    return _t(input)


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    back = [0] * len(order)
    for place, dim in enumerate(order):
        back[dim] = place
    return tuple(back)


_permute = declare(
    "permute",
    "PermuteBackward0",
    geometry.permute_geometry,
    lambda gradient, layout, dims: _permute(gradient, _inverse(dims)),
    ("dims",),
)


def permute(input: Any, dims: Sequence[int]) -> Any:
    """The dimensions in the order `dims`."""
    return _permute(input, tuple(dims))


@named("permute")
def _permute_method(self: Any, *dims: Any, **keywords: Any) -> Any:
    """The dimensions in the order `dims` (ints, or one sequence)."""
    return _permute(self, given_sizes("permute", "dims", (keywords["dims"],) if "dims" in keywords else dims))


NAMESPACE["permute"] = _permute.public = permute
permute.as_view = _permute  # type: ignore[attr-defined]
Tensor.permute = _permute_method  # type: ignore[attr-defined]


@public(names=("moveaxis",))
def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Dimensions moved from `source` to `destination`; the others keep their order."""
    if source.__class__ is int and destination.__class__ is int:
        return _permute(input, _one_moved(input._layout.ndim, source, destination))
    wrong.only_ints(*(given for given in (source, destination) if not isinstance(given, (tuple, list))))
    return _permute(
        input, geometry.movedim_order(input._layout.ndim, geometry.int_tuple(source), geometry.int_tuple(destination))
    )


@lru_cache(256)
@api_boundary
def _one_moved(ndim: int, source: int, destination: int) -> tuple[int, ...]:
    return geometry.movedim_order(ndim, (source,), (destination,))


@public
def adjoint(input: Any) -> Any:
    """The last two dimensions swapped, conjugated if complex; of a number, deprecated, its conjugate."""
    if not input._layout.ndim:
        warn_once("adjoint() is deprecated on 0-D tensors. Consider using x.conj().")
        return _conjugated(input)
    if input._layout.ndim < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input._layout.ndim}-D tensor."
        )
    return _conjugated(_transpose(input, -2, -1))


def _conjugated(input: Any) -> Any:
    return input.conj() if input._layout.dtype.is_complex else input


def _reversed(self: Any) -> Any:
    """All dimensions in reverse order; meant for matrices."""
    ndim = self._layout.ndim
    if ndim == 0:
        warn_once("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.")
    elif ndim > 2:
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and "
            "it will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    return _permute(self, tuple(range(ndim - 1, -1, -1)))


def _matrix_transpose(self: Any) -> Any:
    """The last two dimensions swapped."""
    if not self._layout.ndim:
        warn_once("Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.")
        return self
    if self._layout.ndim < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {self._layout.ndim}-D tensor.")
    return _transpose(self, -2, -1)


def _matrix_adjoint(self: Any) -> Any:
    """The last two dimensions swapped and conjugated."""
    if not self._layout.ndim:
        warn_once("Tensor.mH is deprecated on 0-D tensors. Consider using x.conj().")
        return _conjugated(self)
    if self._layout.ndim < 2:
        raise RuntimeError(f"tensor.mH is only supported on matrices or batches of matrices. Got {self._layout.ndim}-D tensor.")
    return _conjugated(_transpose(self, -2, -1))


def _hermitian(self: Any) -> Any:
    """A matrix transposed and conjugated."""
    ndim = self._layout.ndim
    if ndim == 0:
        warn_once("Tensor.H is deprecated on 0-D tensors. Consider using x.conj().")
        return _conjugated(self)
    if ndim != 2:
        more = " For batches of matrices, consider using tensor.mH" if ndim > 2 else ""
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor.{more}")
    return _conjugated(_transpose(self, 0, 1))


for _name, _getter in (("T", _reversed), ("mT", _matrix_transpose), ("mH", _matrix_adjoint), ("H", _hermitian)):
    setattr(Tensor, _name, property(_getter, doc=_getter.__doc__))

# ---------------------------------------------------------------- parts


@public
def select(input: Any, dim: int, index: int) -> Any:
    """Without dimension `dim`, at position `index` of it."""
    return views.select(input, dim, index)


@public
def narrow(
    input: Any, dim: int | None = None, start: int | Tensor | None = None, length: int | None = None, *, axis: int | None = None
) -> Any:
    """Positions start to start + length of a dimension; start may be an integer tensor of one element."""
    dim = dim if axis is None else axis
    if dim is None or start is None or length is None:
        raise wrong.no_combination("narrow", [x for x in (input, dim, start, length) if x is not None])
    if dim.__class__ is not int or start.__class__ is not int or length.__class__ is not int:
        if isinstance(start, Tensor) and not wrong.is_int(start):
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        wrong.only_ints(dim, start, length)
        start = operator.index(start)
    place, first = geometry.narrow_bounds(input._layout.shape, dim, start, length)
    return views.slice_(input, place, first, first + length, 1)


def _unfold_gradient(gradient: Any, layout: Layout, dim: int, size: int, step: int) -> Any:
    """The windows' gradients added up where they overlap."""
    if not layout.ndim:
        return gradient.sum()
    return OPERATORS["unfold_backward"].public(gradient, layout.shape, geometry.wrap_dim(dim, layout.ndim), size, step)


_unfold = declare("unfold", "UnfoldBackward0", geometry.unfold_geometry, _unfold_gradient, ("dimension", "size", "step"))


@public(namespace=False)
def unfold(self: Any, dimension: int, size: int, step: int) -> Any:
    """Windows of `size` elements every `step` along a dimension; a window's elements are the new last dimension."""
    return _unfold(self, dimension, size, step)


_diagonal = declare(
    "diagonal",
    "DiagonalBackward0",
    geometry.diagonal_geometry,
    lambda gradient, layout, *arguments: embed(gradient, layout, _diagonal, *arguments),
    ("offset", "dim1", "dim2"),
)


@public
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of two dimensions, `offset` above (or below) the main one, as the last dimension."""
    return _diagonal(input, offset, dim1, dim2)


_strided: dict[Any, tuple[Layout, int]] = register_cache({})  # geometry of a call: its layout, and the bytes that it spans


@public
def as_strided(input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """A view of the input's storage with any geometry; storage_offset defaults to the input's. Checked against bounds."""
    layout = input._layout
    if storage_offset is None and input._node is None:
        try:
            made, extent = _strided[layout, size, stride]
        except (KeyError, TypeError):
            pass
        else:
            if input._offset * layout.dtype.itemsize + extent <= input._storage.capacity:
                return view_of(input, input._offset, made)
    if storage_offset is not None and storage_offset.__class__ is not int:
        wrong.only_ints(storage_offset)
    offset = input._offset if storage_offset is None else storage_offset
    capacity = input._storage.capacity if layout.device.type != "meta" else sys.maxsize  # there is no memory to run out of
    shape, strides, start = geometry.as_strided_geometry(
        plain(tuple(size)), plain(tuple(stride)), offset, layout.dtype.itemsize, capacity
    )
    made = view_of(input, start, Layout.of(shape, strides, layout.dtype, layout.device).with_pending(layout.pending))
    if storage_offset is None and layout.answering is None and size.__class__ is stride.__class__ is tuple:
        _strided[layout, size, stride] = made._layout, memory_order.extent(shape, strides) * layout.dtype.itemsize
    if input._node is not None:
        remember(made, input, AsStridedBackward0, (shape, strides, start - input._offset))
    return made


# ---------------------------------------------------------------- the same elements


@public(namespace=False)
def alias(self: Any) -> Any:
    """A view of everything."""
    return views.alias(self)


@public(namespace=False)
def _is_view(self: Any) -> bool:
    """Whether this tensor is a view of another; memory of inference mode has none."""
    return visible_base(self) is not None


@public
def positive(input: Any) -> Any:
    """The tensor itself; RuntimeError for bool."""
    if input._layout.dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


Tensor.__getitem__ = indexing.__getitem__  # type: ignore[attr-defined]
Tensor.__setitem__ = indexing.__setitem__  # type: ignore[attr-defined]

# ---------------------------------------------------------------- in place: the tensor becomes its own view


# What the steps are called that a tensor takes in place.
_IN_PLACE = {
    f"{name}Backward{k}": f"{name}Backward{k + count}"
    for name, count in (("Squeeze", 3), ("Unsqueeze", 1), ("Transpose", 1), ("T", 1), ("AsStrided", 1))
    for k in range(count)
}


def _become(operate: Callable[..., Any], public: str) -> None:
    def in_place(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if self.__class__ is not Tensor and overrides.any_override((self,)):
            return overrides.dispatch(vars(Tensor)[public], (self, *arguments), keywords)
        refuse_write(self)
        _check_reshaped(self)
        made = operate(self, *arguments, **keywords)
        rebound(self)
        self._layout, self._offset = made._layout, made._offset
        if local.grad and made._node is not self._node:
            self._node, self._index = made._node, made._index
            rename(self._node, _IN_PLACE[type(self._node).__name__])
        self._storage.writes += 1
        return self

    in_place.__name__ = in_place.__qualname__ = public
    in_place.__code__ = in_place.__code__.replace(co_name=public)  # what a traceback calls it
    in_place.__doc__ = f"`{public[:-1]}` in place: the tensor itself gets the view's shape."
    setattr(Tensor, public, in_place)


def _check_reshaped(tensor: Any) -> None:
    """Refuse to reshape in place what no write may be recorded of: a leaf that requires grad, its views."""
    if tensor._node is not None and local.grad:
        check_history(tensor)


for _operate in (squeeze, unsqueeze, transpose, swapaxes, t, as_strided):
    _become(_operate, _operate.__name__ + "_")
Tensor.swapdims_ = Tensor.transpose_  # type: ignore[attr-defined]
