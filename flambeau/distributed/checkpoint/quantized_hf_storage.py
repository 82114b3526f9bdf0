"""torch.distributed.checkpoint.quantized_hf_storage: safetensors files of weights in 8 bits, a scale per block, read as floats.

A weight `x.weight` that has a table `x.weight_scale_inv` beside it is the product of both, each scale for a block of rows and
columns (as DeepSeek-V3's files have them). Stands on `hf_storage`.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint.filesystem import take_item
from flambeau.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from flambeau.distributed.checkpoint.metadata import Metadata
from flambeau.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from flambeau.serialize import safetensors_format

__all__ = ["QuantizedHuggingFaceStorageReader"]

_SCALES = "_scale_inv"


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """Reads weights as `target_dtype`; tensors without scales are read as they are, and scales are no entries.

    Args:
        path: the folder; weights and scales have to be whole, in any files of it.
        thread_count: how many threads read files.
        target_dtype: of weights that have scales.
        block_size: rows and columns that have one scale.
    """

    def __init__(
        self, path: str, thread_count: int = 1, target_dtype: torch.dtype = torch.float32, block_size: int = 128
    ) -> None:
        super().__init__(path, thread_count)
        self.target_dtype, self.block_size = target_dtype, block_size

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        metadata = super().read_metadata(*args, **kwargs)
        entries = metadata.state_dict_metadata
        self._scales = {name.removesuffix(_SCALES): name for name in entries if name.endswith(_SCALES)}
        for name, scales in self._scales.items():
            if name not in entries:
                raise ValueError(f"{self.path} has {scales} without {name}")
            entry: Any = entries[name]
            blocks = [-(-size // self.block_size) for size in entry.size]
            if len(entry.chunks) != 1 or len(blocks) != 2:
                raise ValueError(f"{name} in {self.path} has scales and is no whole matrix")
            if list(entries.pop(scales).size) != blocks:  # type: ignore[union-attr]
                raise ValueError(f"{scales} in {self.path} isn't of {blocks}, a scale per block of {self.block_size} squared")
            entry.properties.dtype = self.target_dtype
        self._files = {index.fqn: place.relative_path for index, place in metadata.storage_data.items()}
        return metadata

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        scaled = [item for item in plan.items if item.storage_index.fqn in self._scales]
        for item in scaled:
            take_item(item, self._dequantized(item.storage_index.fqn), planner)
        left = [item for item in plan.items if item.storage_index.fqn not in self._scales]
        return super().read_data(LoadPlan(left, plan.storage_data, plan.planner_data), planner)

    def _whole(self, name: str) -> torch.Tensor:
        with open(self._files[name], "rb") as file:
            return safetensors_format.read_tensor(file, safetensors_format.read_header(file), name)

    def _dequantized(self, name: str) -> torch.Tensor:
        weight = self._whole(name).to(torch.float32)
        scales = self._whole(self._scales[name]).to(torch.float32)
        for dim in (0, 1):
            scales = scales.repeat_interleave(self.block_size, dim).narrow(dim, 0, weight.shape[dim])
        return (weight * scales).to(self.target_dtype)
