"""torch.distributed.utils: copying modules' states to other processes, of which there are none."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "utils",
        "_alloc_storage _free_storage _sync_module_states _sync_params_and_buffers _verify_param_shape_across_processes "
        "_apply_to_tensors _recursive_to _to_kwargs _cast_forward_inputs",
    )
)
