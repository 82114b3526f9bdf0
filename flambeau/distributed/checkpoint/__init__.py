"""torch.distributed.checkpoint: checkpoints that several processes write together. torch.save does it for one."""

import importlib as _importlib
from typing import Any

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "checkpoint",
        "async_save load load_sharded_optimizer_state_dict load_state_dict save save_state_dict",
        "BytesStorageMetadata ChunkStorageMetadata DefaultLoadPlanner DefaultSavePlanner FileSystemReader "
        "FileSystemWriter HuggingFaceStorageReader HuggingFaceStorageWriter LoadPlan LoadPlanner Metadata "
        "QuantizedHuggingFaceStorageReader ReadItem SavePlan SavePlanner StorageReader StorageWriter "
        "TensorStorageMetadata WriteItem",
    )
)


class CheckpointException(BaseException):
    """The failures of the processes that took part, by rank, as `failures`."""

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self.failures = failures


def __getattr__(name: str) -> Any:
    if name in ("default_planner", "format_utils", "hf_storage", "optimizer", "state_dict"):
        return _importlib.import_module(f"flambeau.distributed.checkpoint.{name}")
    raise AttributeError(f"module 'flambeau.distributed.checkpoint' has no attribute '{name}'")
