"""torch.distributed.nn.functional: collectives with gradients; they need a process group."""

from flambeau.distributed.without_group import collective as _collective

globals().update(
    (name, _collective(name))
    for name in (
        "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
        "scatter",
    )
)
