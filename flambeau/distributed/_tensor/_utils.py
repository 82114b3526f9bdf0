"""torch.distributed._tensor._utils: the older place of torch.distributed.tensor._utils."""

from flambeau.distributed.tensor._utils import (
    compute_global_tensor_info,
    compute_global_tensor_shape,
    compute_local_shape_and_global_offset,
    compute_local_stride,
    compute_local_tensor_info,
)

__all__ = ["compute_global_tensor_info", "compute_global_tensor_shape", "compute_local_shape_and_global_offset",
           "compute_local_stride", "compute_local_tensor_info"]  # fmt: skip
