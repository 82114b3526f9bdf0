"""The Tensor: storage, offset, layout, and its place in the graph; no mathematics.

Stands on core.tensor.storage and base.layout. Operators (flambeau.ops) attach themselves as methods; what is here is what a
tensor is: its fields, their properties, and its constructor. Subclasses: core.modes.overrides.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout, Size, register_cache
from flambeau.base.naming import PACKAGE
from flambeau.codegen.plan import Plan
from flambeau.codegen.runtime import launch
from flambeau.codegen.targets import lowered
from flambeau.core.tensor.storage import COPY_ON_WRITE, Storage, show

_get_shape = attrgetter("_layout.shape")


class Field(property):
    """A property of tensors that is read without Python code, by an attrgetter; its `fget` has a name, as those of others do."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @property
    def fget(self) -> Any:  # type: ignore[override]
        """What reads it."""
        read = super().fget

        def getter(tensor: Any) -> Any:
            return read(tensor)

        getter.__name__ = self._name
        return getter


class Tensor:
    """A multi-dimensional array of one dtype that can record what is done to it.

    Fields (always set): `_storage`, `_offset` (elements), `_layout` (shape, strides, dtype, device), `_node` (the graph node
    that made it; a leaf's AccumulateGrad; None when no gradient is wanted) and `_index` (which result of the node).
    """

    __module__ = PACKAGE

    __slots__ = (
        "_storage",
        "_offset",
        "_layout",
        "_node",
        "_index",
        "_root",
        "_grad",
        "_creation",
        "_resting",
        "__dict__",
        "__weakref__",
    )
    _storage: Any
    _offset: int
    _layout: Layout
    _node: Any
    _index: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        if cls is Tensor or not args or not isinstance(args[0], Tensor):
            from flambeau.core.tensor import create

            made = create.legacy_constructor(*args, **kwargs)
        else:
            made = args[0]
        return made if cls is Tensor else made.as_subclass(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    # ---- what it is
    shape = Field(_get_shape, doc="Size of each dimension.")
    dtype = Field(attrgetter("_layout.dtype"), doc="Element type.")
    device = Field(attrgetter("_layout.device.shown"), doc="Where the elements are.")
    ndim = Field(attrgetter("_layout.ndim"), doc="Number of dimensions.")
    nbytes = Field(attrgetter("_layout.nbytes"), doc="Bytes of the elements, without gaps.")
    itemsize = Field(attrgetter("_layout.dtype.itemsize"), doc="Bytes of an element.")

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return self._layout.shape
        return self._layout.shape[wrap_dim(dim, self._layout.ndim)]

    def stride(self, dim: int | None = None) -> Any:
        """Steps in elements from one index to the next: of all dimensions, or of one."""
        if dim is None:
            return self._layout.strides
        return self._layout.strides[wrap_dim(dim, self._layout.ndim)]

    def dim(self) -> int:
        return self._layout.ndim

    def numel(self) -> int:
        return self._layout.numel

    nelement = numel
    ndimension = dim

    def element_size(self) -> int:
        return self._layout.dtype.itemsize

    def storage_offset(self) -> int:
        return self._offset

    def data_ptr(self) -> int:
        """Address of the first element."""
        if self._storage.mark >= 0 or self._storage.size_class == COPY_ON_WRITE:
            show(self._storage)
        return self._storage.ptr + self._offset * self._layout.dtype.itemsize if self._layout.numel else 0

    def is_floating_point(self) -> bool:
        return self._layout.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self._layout.dtype.is_complex

    def is_signed(self) -> bool:
        return self._layout.dtype.is_signed

    def __len__(self) -> int:
        if not self._layout.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._layout.shape[0]

    __hash__ = object.__hash__


launch.bind(Storage, Tensor)
Tensor.__hash__ = launch.identity_method(Tensor, "__hash__")  # type: ignore[method-assign]  # PyTorch's is id()
tensor_from: Callable[[Any, int, Layout], Tensor] = launch.tensor_from
view_of: Callable[[Tensor, int, Layout], Tensor] = launch.view_of
_empties: dict[Layout, Callable] = register_cache({})


def empty_layout(layout: Layout) -> Tensor:
    """A fresh, uninitialised tensor (strides must lie dense in `layout.nbytes`)."""
    make = _empties.get(layout)
    return (empty_plan(layout) if make is None else make)(None)


def empty_plan(layout: Layout) -> Callable:
    """launch(None) -> a fresh, uninitialised tensor of a layout."""
    make = _empties[layout] = lowered(Plan([], [layout]))
    return make


_ALWAYS = 1 << 24  # elements for which there is memory


def within_memory(*layouts: Layout) -> None:
    """RuntimeError, in the words of any allocation, if there is no memory for tensors of these layouts.

    For what takes long to prepare before it allocates its results.
    """
    for layout in layouts:
        if layout.numel > _ALWAYS:
            empty_layout(layout)


__all__ = ["Tensor", "Size", "DType", "tensor_from", "view_of", "empty_layout", "within_memory"]
