"""What functions on jagged nested tensors pass on to the tensor that they make, under PyTorch's name. Stands on ops.nested."""

from __future__ import annotations

from typing import Any

__all__ = ["extract_kwargs"]


def extract_kwargs(arg: Any) -> dict[str, Any]:
    """What NestedTensor takes beside the values, so that another one has the same rows."""
    return {
        "offsets": arg._offsets,
        "lengths": arg._lengths,
        "_metadata_cache": arg._metadata_cache,
        "_ragged_idx": arg._ragged_idx,
    }
