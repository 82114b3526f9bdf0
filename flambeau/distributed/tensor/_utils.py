"""torch.distributed.tensor._utils: which part of a sharded tensor a device has; there are no meshes to ask about."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "tensor._utils",
        "compute_local_shape_and_global_offset compute_global_tensor_info compute_global_tensor_shape "
        "compute_local_tensor_info compute_local_stride",
    )
)
