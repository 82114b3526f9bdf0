"""torch.distributed.tensor.parallel: dividing a module's parameters over devices, which needs several processes."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "tensor.parallel",
        "loss_parallel parallelize_module",
        "ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput RowwiseParallel "
        "SequenceParallel",
    )
)
