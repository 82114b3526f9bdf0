"""Ways out of a tensor: Python numbers, lists, NumPy arrays, text, pickles.

Stands on core.tensor.create and core.tensor.printing; attaches itself to the Tensor class.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from flambeau.base import device as devices
from flambeau.base import geometry
from flambeau.base.dtype import bfloat16, bool_
from flambeau.base.layout import CONJUGATE, Layout, contiguous_strides, preserve_format, register_cache
from flambeau.base.small_floats import AS_BITS
from flambeau.base.warn import warn_once
from flambeau.codegen.runtime.launch import rebound
from flambeau.core.autograd import inplace
from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.modes import modes, observing
from flambeau.core.modes.dispatching import any_dispatching, dispatching
from flambeau.core.modes.overrides import PLAIN, become, slots_of
from flambeau.core.operator.publishing import public
from flambeau.core.tensor import create, lazy_conjugate, printing, storage, storage_io
from flambeau.core.tensor.create import array_of, tolist_array
from flambeau.core.tensor.nested_data import REQUIRES_GRAD, type_name
from flambeau.core.tensor.storage import without_memory
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.core.tensor.without_data import known
from flambeau.ops.creation.copy import layout_in_format, suggested_format
from flambeau.ops.creation.uninitialized import fresh_from

_readers = create.readers


@public(namespace=False)
def item(self: Tensor) -> Any:
    """The value of a one-element tensor as a Python number. Raises RuntimeError for other sizes."""
    read = _readers.get(self._layout)
    return create.item(self) if read is None else read(self)


@public(namespace=False)
def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers (a number for a zero-dim tensor)."""
    if any_dispatching((self,)):
        raise RuntimeError(f".tolist() is not supported for tensor subclasses, got {type(self).__name__}")
    if self._layout.dtype in AS_BITS or self._storage.size_class < 0:
        if not known(self):
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return tolist_array(self).tolist()
    if self._layout.ndim > geometry.MOST_DIMS:  # more than NumPy's arrays have
        return [part.tolist() for part in self.detach().unbind()]
    return array_of(self).tolist()


@public(namespace=False)
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """A NumPy array over the same memory. Raises RuntimeError for tensors that require grad and TypeError for dtypes NumPy lacks.

    force: detach and convert first if need be.
    """
    if any_dispatching((self,)):
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")
    if self._node is not None and not force and modes.local.grad:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if force and self._layout.pending:
        return array_of(lazy_conjugate.resolved(self))
    if self._layout not in _shared:
        _check_shared(self._layout)
    held = self._storage
    storage.materialize(held)
    if not held.size_class:
        held.size_class = storage.LENT
    return array_of(self)


_shared: dict[Any, bool] = register_cache({})  # layouts of tensors that NumPy can look at


def _check_shared(layout: Layout) -> None:
    """TypeError for layouts that NumPy has nothing like."""
    if layout.dtype is bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16")
    if layout.device.type == "meta":
        raise TypeError(
            "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if not hasattr(np, layout.dtype.name) and layout.dtype is not bool_:  # other packages may give NumPy more dtypes
        raise TypeError(f"Got unsupported ScalarType {layout.dtype.scalar_name}")
    if layout.pending:
        which, way = ("conjugate", "conj") if layout.pending & CONJUGATE else ("negative", "neg")
        raise RuntimeError(f"Can't call numpy() on Tensor that has {which} bit set. Use tensor.resolve_{way}().numpy() instead.")
    _shared[layout] = True


@public(namespace=False)
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    array = self.numpy()
    if copy:
        array = array.copy()
    return array if dtype is None else array.astype(dtype, copy=False)


@public(namespace=False)
def __array_wrap__(self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
    if array.dtype == bool:
        array = array.astype("uint8")
    return create.copy_array(np.asarray(array))


@public(namespace=False)
def __repr__(self: Tensor, *, tensor_contents: Any = None) -> str:
    before = devices.use_stand_ins(None)  # a tensor with data may be shown inside a fake tensor mode
    try:
        with modes.no_grad():
            return printing.tensor_repr(self, contents=tensor_contents)
    finally:
        devices.use_stand_ins(before)


@public(namespace=False)
def __format__(self: Tensor, spec: str) -> str:
    plain = self.__class__ in PLAIN and not dispatching(self.__class__)
    if self._layout.ndim == 0 and plain and self._layout.device.type != "meta":
        return create.item(self).__format__(spec)
    return object.__format__(self, spec) if spec else repr(self)


@public(namespace=False)
def __bool__(self: Tensor) -> bool:
    count = self._layout.numel
    if count != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous"
            if count == 0
            else "Boolean value of Tensor with more than one value is ambiguous"
        )
    return bool(create.item(self))


def _number(name: str, kind: type) -> None:
    def convert(self: Tensor) -> Any:
        if self._layout.numel != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        if self._node is not None and kind is not int:
            warn_once(REQUIRES_GRAD)
        value = self.item() if dispatching(self.__class__) else create.item(self)  # type: ignore[attr-defined]
        if value.__class__ is complex and kind is not complex and value.imag:
            raise RuntimeError(f"value cannot be converted to type {'double' if kind is float else 'int64_t'} without overflow")
        return kind(value.real if value.__class__ is complex and kind is not complex else value)

    convert.__name__ = convert.__qualname__ = name
    setattr(Tensor, name, convert)


for _name, _kind in (("__int__", int), ("__float__", float), ("__complex__", complex)):
    _number(_name, _kind)


@public(namespace=False)
def __index__(self: Tensor) -> int:
    if self._layout.dtype.is_floating_point or self._layout.dtype.is_complex or self._layout.numel != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(create.item(self))


@public(namespace=False)
def __contains__(self: Tensor, element: Any) -> bool:
    if isinstance(element, (Tensor, int, float, bool, complex)):
        return bool((self == element).any().item())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


@public(namespace=False)
def __iter__(self: Tensor) -> Iterator[Tensor]:
    if self._layout.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


@public(namespace=False)
def __delitem__(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


@public(namespace=False)
def __reversed__(self: Tensor) -> Tensor:
    return self if self._layout.ndim == 0 else self.flip(0)


@public(namespace=False)
def __deepcopy__(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    if self._node is not None and type(self._node) is not AccumulateGrad:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
            "at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a "
            "torch.nn.utils.weight_norm "
            "usage, see https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    layout = self._layout
    if dispatching(type(self)) and without_memory(self._storage):
        made = self.clone()
        if type(made) is not type(self):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass "
                "types that properly implement clone(), for which cloning returns another instance of the same "
                "subclass. You should either properly implement clone() for your subclass or override "
                "__deepcopy__() if it is intended behavior for clone() to return an instance of a different "
                "type."
            )
    elif layout.device.type == "meta":
        held = memo.get(id(self._storage))
        if held is None:
            held = memo[id(self._storage)] = storage.empty_without_memory(self._storage.capacity)
        made = tensor_from(held, self._offset, layout)
    else:
        made = tensor_from(copy.deepcopy(self._storage, memo), self._offset, layout)
        made = lazy_conjugate.resolved(made)
    if type(made) is not type(self):
        made = become(made, self.__class__)
    memo[id(self)] = made
    if self._node is not None:
        made.requires_grad = True
    if self.grad is not None:
        made.grad = copy.deepcopy(self.grad, memo)
    own = getattr(self, "__dict__", None)
    if own:
        made.__dict__.update(copy.deepcopy(own, memo))
    for name, value in slots_of(self).items():
        setattr(made, name, copy.deepcopy(value, memo))
    return made


@public(namespace=False)
def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    from flambeau.core.tensor import rebuild

    observing.settle()
    return rebuild.reduce_tensor(self)


@public(namespace=False)
def data_property(self: Tensor) -> Tensor:
    """The same memory outside the graph, with a version counter of its own."""
    observing.settle()
    below = modes.local.dispatch_modes
    if dispatching(self.__class__) or (below and below[-1]._before_composites is None):
        made = self.detach()
        if without_memory(made._storage):
            made._storage = storage.empty_without_memory(made._storage.capacity)
        return made
    return tensor_from(storage.alias(self._storage), self._offset, self._layout)


def _renew(leaf: Tensor) -> None:
    """Give a leaf that is to show other memory another node: what was computed from it is no function of it any more."""
    for slot in ("_node", "_resting"):
        node = getattr(leaf, slot, None)
        if type(node) is AccumulateGrad:
            setattr(leaf, slot, node.renewed(leaf))


def _set_data(self: Tensor, value: Tensor) -> None:
    observing.settle()
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if self._node is not None and not (value._layout.dtype.is_floating_point or value._layout.dtype.is_complex):
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    if self.layout != value.layout:  # one of them is sparse
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
        )
    before, after = self._layout, value._layout
    if before.dtype is not after.dtype or before.device is not after.device:
        _renew(self)
    rebound(self)
    self._storage, self._offset, self._layout = value._storage, value._offset, after


def _del_data(self: Tensor) -> None:
    raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")


del Tensor.data_property
Tensor.data = property(
    data_property, _set_data, _del_data, doc="The tensor without its graph; assigning swaps the memory in place."
)
Tensor.is_cuda = property(
    lambda self: self._layout.device.shown.type == "cuda", doc="Whether the tensor is on a CUDA device, as a fake tensor may be."
)
Tensor.is_meta = property(
    lambda self: self._layout.device.shown.type == "meta", doc="Whether the tensor has no memory behind it."
)
for _flag in (
    "is_sparse",
    "is_quantized",
    "is_mkldnn",
    "is_xpu",
    "is_mps",
    "is_ipu",
    "is_nested",
    "is_sparse_csr",
    "is_vulkan",
    "is_xla",
    "is_maia",
    "is_mtia",
):
    setattr(Tensor, _flag, property(lambda self: False))
Tensor.layout = property(lambda self: _strided(), doc="The storage scheme: torch.strided.")
Tensor.name = property(lambda self: None)
Tensor.__array_priority__ = 1000


def _strided() -> Any:
    from flambeau.base.layout import strided

    return strided


@public(namespace=False)
def get_device(self: Tensor) -> int:
    """-1: the CPU; the number of the device for a fake tensor on an accelerator."""
    index = self._layout.device.shown.index
    return -1 if index is None or self._layout.device.shown.type == "cpu" else index


@public(namespace=False)
def is_inference(self: Tensor) -> bool:
    """Whether the memory of this tensor was allocated in inference mode."""
    return bool(self._storage.inference)


@public(namespace=False)
def is_shared(self: Tensor) -> bool:
    """Whether other processes can see the memory."""
    return storage.is_shared(self._storage)


@public(namespace=False)
def is_pinned(self: Tensor, device: Any = None) -> bool:
    return False


@public(namespace=False)
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    raise RuntimeError("Cannot access accelerator device when none is available.")


@public(namespace=False)
def share_memory_(self: Tensor) -> Tensor:
    """Move the memory to pages that forked children see, and processes to which the tensor is sent. RuntimeError on meta."""
    from flambeau.core.tensor.shared_memory import share

    share(self._storage)
    return self


@public(namespace=False)
def untyped_storage(self: Tensor) -> Any:
    """The storage behind the tensor."""
    return self._storage


_PLACED = ", int storage_offset, tuple of ints size, tuple of ints stride = None)"
_SET_FORMS = ("()", "(torch.Storage source)", f"(torch.Storage source{_PLACED}", "(Tensor source)", f"(Tensor source{_PLACED}")


@public(namespace=False)
def set_(self: Tensor, source: Any = None, storage_offset: Any = None, size: Any = None, stride: Any = None) -> Tensor:
    """Look at another tensor's memory (or a storage) from now on: at all of it, or at what offset, size and stride say. The
    storage grows if it must.

    Raises RuntimeError for a source of another dtype or device, and for memory that can't grow.
    """
    inplace.refuse_write(self)
    held = source._storage if isinstance(source, Tensor) else getattr(source, "_untyped_storage", None)
    given = [x for x in (source, storage_offset, size, stride) if x is not None]
    if (
        (source is not None and held is None)
        or (storage_offset is None) != (size is None)
        or (source is None and given)
        or (storage_offset is not None and storage_offset.__class__ is not int)
        or not all(
            x is None or (isinstance(x, (tuple, list)) and all(hasattr(n, "__index__") for n in x)) for x in (size, stride)
        )
    ):
        raise TypeError(
            f"set_() received an invalid combination of arguments - got ({', '.join(map(type_name, given))}), but "
            f"expected one of:\n{''.join(f' * {form}' + chr(10) for form in _SET_FORMS)}"
        )
    inplace.refuse_leaf(self)
    rebound(self)
    layout, dtype = self._layout, self._layout.dtype
    _renew(self)
    if isinstance(source, Tensor):
        if source._layout.dtype is not dtype:
            raise RuntimeError(f"Could not set tensor of type {source._layout.dtype.c_name} to a tensor of type {dtype.c_name}")
        if size is None:
            self._storage, self._offset, self._layout = held, source._offset, source._layout.with_pending(layout.pending)
            return self
    elif held is not None and source is not held and source.dtype is not dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype.c_name} or an UntypedStorage, but got type "
            f"{source.dtype.scalar_name} for argument 1 'storage'"
        )
    on_meta = layout.device.type == "meta"
    if held is None:
        held = storage.empty_without_memory(0) if on_meta else storage.empty(0)
    elif storage.without_memory(held) != on_meta:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{layout.device}" to a storage on different '
            f'device "{"cpu" if on_meta else "meta"}".  This is no longer allowed; the devices must match.'
        )
    shape = (held.capacity // dtype.itemsize,) if size is None else tuple([n.__index__() for n in size])
    strides = tuple([n.__index__() for n in stride]) if stride is not None else contiguous_strides(shape)
    _, _, needed = storage_io.checked_geometry(shape, strides, storage_offset or 0, dtype.itemsize)
    if needed > held.capacity:
        storage.resize(held, needed)
    self._storage, self._offset = held, storage_offset or 0
    self._layout = Layout.of(shape, strides, dtype, layout.device).with_pending(layout.pending)
    return self


@public(namespace=False)
def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Change the shape in place; the storage grows if it must. Raises RuntimeError for tensors that require grad."""
    sizes = sizes if size is None else (size,)
    from flambeau.core.operator.out_argument import resize
    from flambeau.ops.creation.factories import sizes_of

    if self._node is not None and not (modes.local.inference and self._storage.inference):
        raise RuntimeError("cannot resize variables that require grad")
    before = self._storage.capacity
    before, layout = self._storage.capacity, self._layout
    resize(self, sizes_of("resize_", sizes))
    fresh_from(self, before)
    if memory_format is not None:
        self._layout = layout_in_format(self._layout, memory_format)
    if self._layout is not layout:
        self._storage.writes += 1
    return self


@public(namespace=False)
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """resize_ to the shape of another tensor."""
    if not isinstance(the_template, Tensor):
        raise TypeError(f"resize_as_(): argument 'the_template' (position 1) must be Tensor, not {type(the_template).__name__}")
    if memory_format is preserve_format:
        memory_format = suggested_format(the_template._layout)
    return self.resize_(the_template._layout.shape, memory_format=memory_format)


@public(method=False)
def is_tensor(obj: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(obj, Tensor)
