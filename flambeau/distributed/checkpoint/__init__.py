"""torch.distributed.checkpoint: checkpoints that several processes write and read together, in PyTorch's format.

`state_dict_saver` and `state_dict_loader` are what programs call; `default_planner` decides which rank writes and reads what,
`filesystem` does it (`_fsspec_filesystem` elsewhere than in a folder, `hf_storage` in safetensors files); `state_dict` names what
models and optimizers have.
"""

import importlib as _importlib
from typing import Any

from flambeau.distributed.checkpoint.api import CheckpointException
from flambeau.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from flambeau.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from flambeau.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from flambeau.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from flambeau.distributed.checkpoint.optimizer import load_sharded_optimizer_state_dict
from flambeau.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from flambeau.distributed.checkpoint.quantized_hf_storage import QuantizedHuggingFaceStorageReader
from flambeau.distributed.checkpoint.state_dict_loader import load, load_state_dict
from flambeau.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from flambeau.distributed.checkpoint.storage import StorageReader, StorageWriter

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner", "DefaultSavePlanner",
    "FileSystemReader", "FileSystemWriter", "HuggingFaceStorageReader", "HuggingFaceStorageWriter", "LoadPlan",
    "LoadPlanner", "Metadata", "QuantizedHuggingFaceStorageReader", "ReadItem", "SavePlan", "SavePlanner",
    "StorageReader", "StorageWriter", "TensorStorageMetadata", "WriteItem", "async_save", "load",
    "load_sharded_optimizer_state_dict", "load_state_dict", "save", "save_state_dict",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("format_utils", "state_dict"):
        return _importlib.import_module(f"flambeau.distributed.checkpoint.{name}")
    raise AttributeError(f"module 'flambeau.distributed.checkpoint' has no attribute '{name}'")
