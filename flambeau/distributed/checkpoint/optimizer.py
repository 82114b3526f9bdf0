"""torch.distributed.checkpoint.optimizer: optimizers' states of a checkpoint, cut as a model's parameters are.

Stands on `state_dict_loader`'s parts and `default_planner`.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint._nested_dict import unflatten_state_dict
from flambeau.distributed.checkpoint._together import Together
from flambeau.distributed.checkpoint.default_planner import DefaultLoadPlanner
from flambeau.distributed.checkpoint.metadata import TensorStorageMetadata
from flambeau.distributed.checkpoint.planner import LoadPlanner
from flambeau.distributed.checkpoint.state_dict_loader import read_into
from flambeau.distributed.checkpoint.storage import StorageReader
from flambeau.distributed.state_names import placed_like

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(
    model_state_dict: dict[str, Any], optimizer_key: str, storage_reader: StorageReader, planner: LoadPlanner | None = None
) -> dict[str, Any]:
    """The optimizer's state that a checkpoint has under `optimizer_key`, as a state dict with that key.

    A state of the size of its parameter, which is found in `model_state_dict` by the name in the checkpoint, is cut as that is;
    others are whole. Every rank calls it. KeyError if the checkpoint has nothing under the key.
    """
    metadata = storage_reader.read_metadata()
    paths = {name: path for name, path in (metadata.planner_data or {}).items() if str(path[0]) == optimizer_key}
    if not paths:
        raise KeyError(f"the checkpoint has nothing under {optimizer_key!r}")
    values: dict[str, Any] = {}
    for name, path in paths.items():
        entry = metadata.state_dict_metadata[name]
        if isinstance(entry, TensorStorageMetadata):
            parameter = next((model_state_dict[str(key)] for key in path[1:] if str(key) in model_state_dict), None)
            values[name] = _empty(entry, parameter)
        else:
            values[name] = None
    state_dict = unflatten_state_dict(values, paths)
    read_into(state_dict, storage_reader, planner or DefaultLoadPlanner(), Together())
    return state_dict


def _empty(entry: TensorStorageMetadata, parameter: Any) -> torch.Tensor:
    whole = torch.empty(entry.size, dtype=entry.properties.dtype, device="meta")
    if isinstance(parameter, torch.Tensor) and parameter.shape == entry.size and hasattr(parameter, "_local_tensor"):
        local = torch.empty_like(parameter._local_tensor, dtype=entry.properties.dtype)
        placed: torch.Tensor = placed_like(local, parameter)
        return placed
    return torch.empty_like(whole, device="cpu")
