"""Where an entry of a checkpoint lies among its files, as PyTorch's `.metadata` has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.base.naming import called

__all__ = ["StorageInfo"]


@called("distributed.checkpoint.filesystem", "_StorageInfo")
@dataclass
class StorageInfo:
    """A file below the checkpoint's folder, and the bytes of it."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if value is not None}
