"""torch.distributed.checkpoint.format_utils: between such checkpoints and files of torch.save."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "checkpoint.format_utils",
        "dcp_to_torch_save torch_save_to_dcp",
        "_EmptyStateDictLoadPlanner DynamicMetaLoadPlanner",
    )
)
