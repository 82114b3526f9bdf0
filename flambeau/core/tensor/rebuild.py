"""How tensors are taken apart for a pickle and put together again: the functions that PyTorch's files name.

Stands on storage_io. `Tensor.__reduce_ex__` calls `reduce_tensor`, for plain pickle and torch.save alike; the `rebuild_*`
functions are what a pickle calls, under PyTorch's names (serialize/names.py). Nothing here trusts its arguments: they may
come from a hostile file.
"""

from __future__ import annotations

import copyreg
import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base import layout as layouts
from flambeau.base.naming import called, findable
from flambeau.core.autograd.tensor_methods import require_grad_of_new
from flambeau.core.modes.dispatching import dispatching
from flambeau.core.modes.overrides import make_wrapper_subclass, slots_of
from flambeau.core.tensor import storage_io, storage_types
from flambeau.core.tensor.storage import Storage, without_memory
from flambeau.core.tensor.storage_types import BY_DTYPE, StorageReference
from flambeau.core.tensor.tensor import Tensor

#: `values_follow` is True in a thread that reads a legacy file, where storages are filled only after the tensors are made.
reading = threading.local()


class _Writing(threading.local):
    """What this thread's files are written with. fakes: whether a fake tensor is written as a real one."""

    fakes = False


writing = _Writing()

# ---------------------------------------------------------------- taking apart


def refuse_graph(tensor: Tensor) -> None:
    """RuntimeError for a result of the graph, which can't leave its process."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue)."
        )


def reduce_tensor(tensor: Tensor, protocol: int = 2) -> tuple[Any, ...]:
    """The (function, arguments) by which pickle writes a tensor; the same for plain pickle and torch.save.

    The graph is not written: a tensor that requires grad comes back as a leaf that requires grad.
    """
    function, arguments = _plain_parts(tensor)
    state = attributes_of(tensor)
    if function is findable(rebuild_wrapper_subclass):
        return rebuild_from_type_v2, (function, type(tensor), arguments, state)
    if (type(tensor) is Tensor and not state) or (writing.fakes and tensor._layout.device.stand_ins is not None):
        return function, arguments
    return rebuild_from_type_v2, (function, type(tensor), arguments, state)


def _plain_parts(tensor: Tensor) -> tuple[Any, tuple[Any, ...]]:
    requires_grad = bool(tensor.requires_grad)
    if dispatching(type(tensor)) and without_memory(tensor._storage):
        layout = tensor._layout
        place = (layout.dtype, tuple(layout.shape), tuple(layout.strides), tensor._offset, layouts.strided, layout.device)
        return findable(rebuild_wrapper_subclass), (type(tensor), *place, requires_grad)
    if tensor.device.type == "meta":
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        return findable(rebuild_meta_tensor_no_storage), (tensor.dtype, shape, strides, requires_grad)
    storage, offset, shape, strides, dtype = storage_io.parts(tensor)
    bits = tensor._layout.pending
    metadata = {name: True for name, bit in (("conj", layouts.CONJUGATE), ("neg", layouts.NEGATIVE)) if bits & bit}
    told = (metadata,) if metadata else ()
    if dtype in BY_DTYPE:
        reference = StorageReference.of(storage, dtype)
        return findable(rebuild_tensor_v2), (reference, offset, shape, strides, requires_grad, OrderedDict(), *told)
    reference = StorageReference.of(storage)
    return findable(rebuild_tensor_v3), (reference, offset, shape, strides, requires_grad, OrderedDict(), dtype, *told)


def attributes_of(tensor: Tensor) -> Any:
    """The attributes that a program put on a tensor: a dict, or of a class with slots the pair (dict, those in slots); what
    `__getstate__` says of a class that has its own.
    """
    if type(tensor).__getstate__ is not object.__getstate__:
        return tensor.__getstate__()
    attributes, slots = dict(getattr(tensor, "__dict__", None) or {}), slots_of(tensor)
    return (attributes, slots) if slots else attributes


def reduce_storage(storage: Storage | StorageReference) -> tuple[Any, ...]:
    """How plain pickle writes a storage: as a file of its own, in the format before PyTorch 1.6, which PyTorch reads.

    Tensors that share it in one pickle still share it afterwards. torch.save writes a persistent id in its place.
    """
    content = io.BytesIO()
    storage_types.files().save(storage, content, _use_new_zipfile_serialization=False)
    return load_from_bytes, (content.getvalue(),)


# ---------------------------------------------------------------- putting together


@called("storage", "_load_from_bytes")
def load_from_bytes(content: bytes) -> Any:
    """What a file holds whose content this is. Plain pickles call it, which are trusted anyway: so is the file."""
    return storage_types.files().load(io.BytesIO(content), weights_only=False)


@called("_utils", "_rebuild_tensor")
def rebuild_tensor(reference: StorageReference, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """The tensor of this geometry (counted in elements) over a storage of known type.

    Raises RuntimeError for geometry outside the storage.
    """
    return _over(reference, reference.dtype if isinstance(reference, StorageReference) else None, offset, shape, strides)


def _over(reference: Any, dtype: Any, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    if not isinstance(reference, (StorageReference, Storage)):
        raise TypeError(f"expected a storage, not {type(reference).__name__}")
    held = reference.storage if isinstance(reference, StorageReference) else reference
    return storage_io.make_tensor(held, dtype, offset, shape, strides)


@called("_utils", "_rebuild_tensor_v2")
def rebuild_tensor_v2(
    reference: StorageReference,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    metadata: dict[str, bool] | None = None,
) -> Tensor:
    """rebuild_tensor plus requires_grad. Hooks are never written; the argument keeps PyTorch's format."""
    tensor = rebuild_tensor(reference, offset, shape, strides)
    return with_grad(with_metadata(tensor, metadata), requires_grad)


@called("_utils", "_rebuild_tensor_v3")
def rebuild_tensor_v3(
    reference: StorageReference,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    dtype: dtypes.dtype,
    metadata: dict[str, bool] | None = None,
) -> Tensor:
    """The same over a storage without type: of the dtypes that have no old storage name."""
    return with_grad(with_metadata(_over(reference, dtype, offset, shape, strides), metadata), requires_grad)


@called("_utils", "_rebuild_wrapper_subclass")
def rebuild_wrapper_subclass(
    cls: type,
    dtype: dtypes.dtype,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Any:
    """A tensor without memory of a class that answers operators; what it wraps is in its attributes."""
    return make_wrapper_subclass(
        cls,
        size,
        strides=stride,
        storage_offset=storage_offset,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


@called("_utils", "_rebuild_meta_tensor_no_storage")
def rebuild_meta_tensor_no_storage(
    dtype: dtypes.dtype, shape: Sequence[int], strides: Sequence[int], requires_grad: bool
) -> Tensor:
    """A tensor on meta: everything but values."""
    return with_grad(storage_io.make_tensor(None, dtype, 0, shape, strides), requires_grad)


@called("_tensor", "_rebuild_from_type_v2")
def rebuild_from_type_v2(function: Any, cls: type, arguments: tuple[Any, ...], state: Any) -> Tensor:
    """A tensor of a subclass, or one with attributes of its own."""
    tensor = function(*arguments)
    if type(tensor) is not cls:
        if not (isinstance(cls, type) and issubclass(cls, Tensor)):
            raise TypeError(f"expected a subclass of torch.Tensor, not {cls!r}")
        tensor = tensor.as_subclass(cls)
    return set_attributes(tensor, state)


def set_attributes(tensor: Any, state: Any) -> Any:
    """Gives a tensor that was just made what `attributes_of` said, and returns it. Raises TypeError or RuntimeError for what
    that can't be.
    """
    restore = getattr(tensor, "__setstate__", None)
    if restore is not None:  # a class's own
        restore(state)
        return tensor
    return put_attributes(tensor, state)


def put_attributes(tensor: Any, state: Any) -> Any:
    """`set_attributes` without the class's own `__setstate__`, which may call it; of any object."""
    # (attributes, slots) is how copyreg writes a class with slots.
    if isinstance(state, tuple) and len(state) != 2:
        raise RuntimeError(f"Invalid serialized state: a tuple of {len(state)} values")
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for part in (attributes, slots):
        if part is not None and not (isinstance(part, dict) and all(isinstance(name, str) for name in part)):
            raise TypeError("the attributes of a tensor must be in a dict, under their names")
    # Straight into __dict__: a file must not reach the slots that say where the tensor's memory is.
    tensor.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        if isinstance(tensor, Tensor) and hasattr(Tensor, name):
            raise TypeError(f"a file can't set the attribute {name!r} of a tensor")
        setattr(tensor, name, value)
    return tensor


@called("serialization", "_get_layout")
def get_layout(name: str) -> layouts.layout:
    """The storage scheme called `name` ("torch.strided"). Raises RuntimeError for one that doesn't exist here."""
    compressed = (layouts.sparse_csr, layouts.sparse_csc, layouts.sparse_bsr, layouts.sparse_bsc)
    for layout in (layouts.strided, layouts.sparse_coo, *compressed):
        if name == repr(layout):
            return layout
    raise RuntimeError(f"tensors of layout {name} are not supported")


def with_metadata(tensor: Tensor, metadata: dict[str, bool] | None) -> Tensor:
    """Makes a tensor the conjugate or negative view that a file says it was."""
    if metadata and (metadata.get("conj") or metadata.get("neg")):
        if metadata.get("conj") and not tensor._layout.dtype.is_complex:
            raise RuntimeError("a file says that a real tensor is a conjugate view")
        bits = (layouts.CONJUGATE if metadata.get("conj") else 0) | (layouts.NEGATIVE if metadata.get("neg") else 0)
        tensor._layout = tensor._layout.with_pending(bits)
    return tensor


def with_grad(tensor: Tensor, requires_grad: bool) -> Tensor:
    """The tensor, requiring grad if the file says so. Raises RuntimeError for integers and bools, and for what is no bool."""
    if requires_grad is not False:
        if requires_grad is not True:
            raise RuntimeError("requires_grad must be a bool")
        if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        if type(tensor) is Tensor:
            require_grad_of_new(tensor)
        else:  # a class may answer this, too
            tensor.requires_grad = True
    return tensor


copyreg.pickle(Storage, reduce_storage)
copyreg.pickle(StorageReference, reduce_storage)  # type: ignore[arg-type]
