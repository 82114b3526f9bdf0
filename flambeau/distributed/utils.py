"""torch.distributed.utils: what wrappers of modules share: states sent to other processes, inputs moved and cast, storages freed.

Stands on collectives and the public operators; DistributedDataParallel and libraries with wrappers of their own use it.
"""

from __future__ import annotations

import collections
import dataclasses
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import Any

import flambeau as torch
from flambeau.distributed.object_collectives import all_gather_object

__all__: list[str] = []


def _sync_params_and_buffers(process_group: Any, module_states: Sequence[Any], broadcast_bucket_size: int, src: int) -> None:
    """Tensors become those of rank `src` of a group. broadcast_bucket_size: taken, and left to MPI."""
    for work in [process_group.broadcast([each.detach()], src) for each in module_states if each.numel()]:
        work.wait()


def _sync_module_states(
    module: Any,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Collection[str],
    broadcast_buffers: bool = True,
) -> None:
    """A module's parameters, and its buffers if wanted, become those of rank `src` of a group, but those of these names."""
    states = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    _sync_params_and_buffers(
        process_group, [each for name, each in states if name not in params_and_buffers_to_ignore], broadcast_bucket_size, src
    )


def _verify_param_shape_across_processes(process_group: Any, tensors: Sequence[Any], logger: Any = None) -> None:
    """Raise RuntimeError if the processes don't have parameters of the same number, shapes and dtypes."""
    if process_group.size() == 1:
        return
    own = [(tuple(each.shape), str(each.dtype).rpartition(".")[2]) for each in tensors]
    everyone: list[Any] = [None] * process_group.size()
    all_gather_object(everyone, own, group=process_group)
    rank = process_group.rank()
    for other, theirs in enumerate(everyone):
        if len(theirs) != len(own):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {rank} has {len(own)} params, while rank "
                f"{other} has inconsistent {len(theirs)} params."
            )
    for other, theirs in enumerate(everyone):
        for index, (mine, its) in enumerate(zip(own, theirs)):
            if mine != its:
                what = f"sizes {list(mine[0])}" if mine[0] != its[0] else f"dtype {mine[1]}"
                that = "" if mine[0] == its[0] == mine[0] and other == 0 else f" ({list(its[0])}, {its[1]})"
                raise RuntimeError(
                    f"[{rank}]: params[{index}] in this process with {what} appears not to match "
                    f"{'sizes' if mine[0] != its[0] else 'dtype'} of the same param in process {other}{that}."
                )


def _apply_to_tensors(fn: Callable[[Any], Any], container: Any) -> Any:
    """A container whose tensors are fn of what they were: lists, tuples, sets, dicts, dataclasses, packed sequences."""
    if isinstance(container, torch.Tensor):
        return fn(container)
    if hasattr(container, "__dataclass_fields__") and not isinstance(container, type):
        changes = {each.name: _apply_to_tensors(fn, getattr(container, each.name)) for each in dataclasses.fields(container)}
        return dataclasses.replace(container, **changes)
    if isinstance(container, collections.OrderedDict):
        return type(container)((key, _apply_to_tensors(fn, value)) for key, value in container.items())
    if isinstance(container, torch.nn.utils.rnn.PackedSequence):
        _apply_to_tensors(fn, container.data)
        return container
    if isinstance(container, dict):
        return {key: _apply_to_tensors(fn, value) for key, value in container.items()}
    if isinstance(container, tuple) and hasattr(container, "_fields"):
        return type(container)(*(_apply_to_tensors(fn, each) for each in container))
    if isinstance(container, (list, tuple, set)):
        return type(container)(_apply_to_tensors(fn, each) for each in container)
    return container


def _cast_forward_inputs(dtype: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Arguments of a module whose tensors of floating point have this dtype; None leaves them."""
    if dtype is None:
        return args, kwargs

    def cast(tensor: Any) -> Any:
        return tensor.to(dtype) if torch.is_floating_point(tensor) and tensor.dtype is not dtype else tensor

    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _recursive_to(inputs: Any, target_device: Any, use_side_stream_for_tensor_copies: bool = False) -> list[Any]:
    """A list of `inputs` with its tensors on a device, as a list of one for each device."""
    return [_apply_to_tensors(lambda tensor: tensor.to(target_device), inputs)]


def _to_kwargs(
    inputs: Any, kwargs: Any, target_device: Any, use_side_stream_for_tensor_copies: bool = False
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Positional and named arguments on a device, as one of each for each device."""
    return (tuple(_recursive_to(tuple(inputs or ()), target_device)), tuple(_recursive_to(dict(kwargs or {}), target_device)))


def _pack_kwargs(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Positional and named arguments one after another, and the names of the latter."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args: Sequence[Any], kwarg_keys: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What _pack_kwargs was given. Raises AssertionError for more names than arguments."""
    if len(kwarg_keys) > len(flat_args):
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    count = len(flat_args) - len(kwarg_keys)
    return tuple(flat_args[:count]), dict(zip(kwarg_keys, flat_args[count:]))


def _alloc_storage(tensor: Any, size: Any) -> None:
    """Give a tensor's storage memory for this shape. Raises RuntimeError if it has some of another size."""
    storage, wanted = tensor._typed_storage()._untyped_storage, torch.Size(size).numel() * tensor.element_size()
    if storage.size() != wanted:
        if storage.size():
            raise RuntimeError(f"Tensor storage should have been resized to be 0 but got {storage.size()}")
        storage.resize_(wanted)


def _free_storage(tensor: Any) -> None:
    """Give a tensor's memory back. Raises RuntimeError if it doesn't have its storage to itself."""
    storage = tensor._typed_storage()._untyped_storage
    if storage.size():
        if tensor.storage_offset():
            raise RuntimeError(
                "Freeing a tensor's storage is unsafe when it is not the sole occupant\n"
                f"storage offset: {tensor.storage_offset()}\nstorage size: {storage.size()}\n"
                f"tensor shape: {tensor.shape}"
            )
        storage.resize_(0)


def _replace_by_prefix(state_dict: dict[str, Any], old_prefix: str, new_prefix: str) -> None:
    """Rename those entries whose names begin so. Raises ValueError if nothing would change."""
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix) :]] = state_dict.pop(key)


def _p_assert(cond: Any, s: str, raise_assertion_error: bool = True) -> None:
    """Raise AssertionError, with what led to it printed, for inside of a backward pass."""
    if not cond:
        print(s)
        traceback.print_stack()
        if raise_assertion_error:
            raise AssertionError(s)


def _get_root_modules(modules: Sequence[Any]) -> list[Any]:
    """Those of these modules that none of the others contains."""
    inside = {child for module in modules for child in module.modules() if child is not module}
    return [module for module in modules if module not in inside]
