"""torch.distributed._state_dict_utils: state dicts with whole tensors, and copies of them in memory of one's own.

Stands on `tensor` and `checkpoint.staging`; programs use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flambeau as torch
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.checkpoint.staging import staged
from flambeau.distributed.tensor._api import DTensor, distribute_tensor

__all__: list[str] = []


def _changed(value: Any, of_tensor: Callable[[Any], Any]) -> Any:
    """A value with other tensors."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, Mapping):
        return {key: _changed(item, of_tensor) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_changed(item, of_tensor) for item in value])
    return value


def _keeps(ranks_only: tuple[int, ...]) -> bool:
    return not ranks_only or not c10d.is_initialized() or c10d.get_rank() in ranks_only


@torch.no_grad()
def _gather_state_dict(
    state_dict: dict[str, Any],
    *,
    pg: Any = None,
    device: Any = None,
    cpu_offload: bool = False,
    ranks_only: tuple[int, ...] = (),
    type_check: bool = True,
) -> dict[str, Any]:
    """A state dict whose DTensors are whole, on some ranks only if they are given: the others get an empty dict."""

    def whole(tensor: Any) -> Any:
        tensor = tensor.detach()
        tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        return tensor.cpu() if cpu_offload else tensor

    result: dict[str, Any] = _changed(state_dict, whole)
    return result if _keeps(ranks_only) else {}


def _offload_state_dict_to_cpu(
    state_dict: dict[str, Any], *, ranks_only: tuple[int, ...] = (), type_check: bool = True
) -> dict[str, Any]:
    """A state dict whose tensors are the CPU's, on some ranks only if they are given: the others get an empty dict."""
    result: dict[str, Any] = _changed(state_dict, lambda tensor: tensor.detach().cpu())
    return result if _keeps(ranks_only) else {}


def _create_cpu_state_dict(state_dict: dict[str, Any], pin_memory: bool = False, share_memory: bool = False) -> dict[str, Any]:
    """A copy to be filled by `_copy_state_dict`, in memory that other processes can map if it is to be shared."""
    result: dict[str, Any] = staged(state_dict, None, share_memory)
    return result


def _copy_state_dict(
    state_dict: dict[str, Any], copy_state_dict: dict[str, Any], non_blocking: bool = False, type_check: bool = True
) -> dict[str, Any]:
    """Copies tensors into those of another state dict, which gets the other values as they are."""
    found = staged(state_dict, copy_state_dict)
    copy_state_dict.update(found)
    return copy_state_dict


def _check_state_dict_similarity(state_dict: dict[str, Any], compared_state_dict: dict[str, Any]) -> bool:
    """Whether two state dicts have the same names, and tensors of the same sizes and dtypes."""
    if isinstance(state_dict, torch.Tensor) or isinstance(compared_state_dict, torch.Tensor):
        both = isinstance(state_dict, torch.Tensor) and isinstance(compared_state_dict, torch.Tensor)
        return both and (state_dict.shape, state_dict.dtype) == (compared_state_dict.shape, compared_state_dict.dtype)
    if isinstance(state_dict, Mapping):
        return (
            isinstance(compared_state_dict, Mapping)
            and state_dict.keys() == compared_state_dict.keys()
            and all(_check_state_dict_similarity(value, compared_state_dict[key]) for key, value in state_dict.items())
        )
    if isinstance(state_dict, (list, tuple)):
        return (
            isinstance(compared_state_dict, type(state_dict))
            and len(state_dict) == len(compared_state_dict)
            and all(map(_check_state_dict_similarity, state_dict, compared_state_dict))
        )
    return True


def _distribute_tensors(local_state_dict: dict[str, Any], keys: list[str], device: Any, pg: Any = None) -> None:
    """Puts whole tensors, in pairs with the DTensors that they belong to, in those DTensors' placements in their place."""
    for key in keys:
        value = local_state_dict[key]
        if isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[0], DTensor):
            like, whole = value
            made = distribute_tensor(whole.to(device), like.device_mesh, like.placements, src_data_rank=None)
            local_state_dict[key] = made
