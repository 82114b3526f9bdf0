"""torch._utils: helpers for tensors, devices and exceptions that other libraries import by this name.

Stands on core's rebuild functions, nn.parameter and the public operators. Used by programs that write checkpoints, put gradients
together in buckets, or pass exceptions between processes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pkgutil import resolve_name as _import_dotted_name
from types import ModuleType
from typing import Any

import flambeau as torch
from flambeau.base.failures import ExceptionWrapper, KeyErrorMessage
from flambeau.core.tensor.rebuild import put_attributes as _set_obj_state
from flambeau.core.tensor.rebuild import rebuild_meta_tensor_no_storage as _rebuild_meta_tensor_no_storage
from flambeau.core.tensor.rebuild import rebuild_tensor as _rebuild_tensor
from flambeau.core.tensor.rebuild import rebuild_tensor_v2 as _rebuild_tensor_v2
from flambeau.core.tensor.rebuild import rebuild_tensor_v3 as _rebuild_tensor_v3
from flambeau.core.tensor.rebuild import rebuild_wrapper_subclass as _rebuild_wrapper_subclass
from flambeau.nn.parameter import _rebuild_parameter, _rebuild_parameter_with_state

__all__ = [
    "ExceptionWrapper",
    "KeyErrorMessage",
    "_element_size",
    "_flatten_dense_tensors",
    "_get_all_device_indices",
    "_get_available_device_type",
    "_get_current_device_index",
    "_get_device_index",
    "_get_device_module",
    "_get_obj_state",
    "_handle_complex",
    "_import_dotted_name",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_wrapper_subclass",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_reorder_tensors_as",
    "_set_obj_state",
    "_take_tensors",
    "_unflatten_dense_tensors",
    "classproperty",
    "cpu_count",
    "get_current_device_index",
    "is_compiling",
    "render_call",
    "try_import",
]


def __getattr__(name: str) -> Any:
    """What pickles of sparse, nested and quantized tensors call; it loads their operators when it is asked for."""
    if name == "_rebuild_sparse_tensor":
        from flambeau.ops.sparse.pickling import rebuild_sparse_tensor

        return rebuild_sparse_tensor
    if name == "_rebuild_qtensor":
        from flambeau.ops.quantized.pickling import rebuild_qtensor

        return rebuild_qtensor
    if name == "_rebuild_nested_tensor":
        from flambeau.ops.nested.pickling import rebuild_nested_tensor

        return rebuild_nested_tensor
    raise AttributeError(f"module 'flambeau._utils' has no attribute '{name}'")


# ---------------------------------------------------------------- many tensors in one


def _flatten_dense_tensors(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All elements of tensors of one dtype, one tensor after the other, in one dimension."""
    return torch.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Views of what `_flatten_dense_tensors` gave, in the shapes of `tensors`."""
    pieces = flat.split([tensor.numel() for tensor in tensors])
    return tuple(piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors))


def _take_tensors(tensors: Iterable[torch.Tensor], size_limit: int) -> Iterator[list[torch.Tensor]]:
    """Lists of tensors of one type each, of about `size_limit` bytes together."""
    waiting: dict[str, list[torch.Tensor]] = defaultdict(list)
    sizes: dict[str, int] = defaultdict(int)
    for tensor in tensors:
        kind, size = tensor.type(), tensor.numel() * tensor.element_size()
        if waiting[kind] and sizes[kind] + size > size_limit:
            yield waiting.pop(kind)
            sizes[kind] = 0
        waiting[kind].append(tensor)
        sizes[kind] += size
    yield from (chunk for chunk in waiting.values() if chunk)


def _reorder_tensors_as(tensors: Iterable[torch.Tensor], ordered_tensors: Iterable[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Tensors that are in the order of `ordered_tensors` within each type, in that order altogether."""
    by_type: dict[str, list[torch.Tensor]] = defaultdict(list)
    for tensor in tensors:
        by_type[tensor.type()].append(tensor)
    queues = {kind: iter(members) for kind, members in by_type.items()}
    return tuple(next(queues[tensor.type()]) for tensor in ordered_tensors)


def _element_size(dtype: torch.dtype) -> int:
    """Bytes per element. Raises RuntimeError for what is no dtype."""
    if not isinstance(dtype, torch.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _handle_complex(tensor: torch.Tensor) -> torch.Tensor:
    """A view in real numbers of a complex tensor; any other as it is."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _get_obj_state(obj: Any) -> Any:
    """What a pickle holds of an object's attributes, as its class says; `_set_obj_state(obj, state)` puts them back."""
    return obj.__getstate__()


# ---------------------------------------------------------------- devices


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device: of cuda:1, 1. optional: the current device where none is named, which is None here.

    allow_cpu: -1 for the CPU. Raises ValueError for the CPU otherwise, and for what names no number.
    """
    wanted = torch.device(device) if isinstance(device, str) else device
    if isinstance(wanted, torch.device):
        if wanted.type == "cpu":
            if allow_cpu:
                return -1
            raise ValueError(f"Expected a non cpu device, but got: {wanted}")
        index = wanted.index
    else:
        index = wanted if isinstance(wanted, int) else None
    if index is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return index


def _get_available_device_type() -> str | None:
    """The type of the accelerator: None, for there is none."""
    return None


def _get_current_device_index() -> int | None:
    """The accelerator in use: None."""
    return None


def _get_all_device_indices() -> list[int] | None:
    """The accelerators: None."""
    return None


def get_current_device_index() -> int:
    """The CUDA device in use; -1 without one."""
    return -1


def _get_device_module(device_type: str) -> ModuleType:
    """The room of a device's type, such as torch.cpu. Raises RuntimeError for a type without one."""
    return torch.get_device_module(device_type)


def cpu_count() -> int | None:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


# ---------------------------------------------------------------- names and modules


def is_compiling() -> bool:
    """Whether torch.compile is at work."""
    return torch.compiler.is_compiling()


def try_import(module_name: str) -> ModuleType | None:
    """The module, or None where it isn't installed. Raises ImportError if it is there and its import fails."""
    if module_name in sys.modules:
        return sys.modules[module_name]
    found = importlib.util.find_spec(module_name)
    if found is None or found.loader is None:
        return None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    sys.modules[module_name] = module
    return module


def render_call(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """A call as text: torch.add(1, 2, alpha=3)."""
    name = torch.overrides.resolve_name(fn) or str(fn)
    texts = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
    return f"{name}({', '.join(texts)})"


class classproperty:
    """A property of the class itself: the getter gets the class."""

    def __init__(self, func: Callable[..., Any]):
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)
