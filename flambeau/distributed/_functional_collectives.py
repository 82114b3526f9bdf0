"""torch.distributed._functional_collectives: collectives that return their results; they need a process group."""

from flambeau.distributed.without_group import absent as _absent
from flambeau.distributed.without_group import collective as _collective

globals().update(
    (name, _collective(name))
    for name in """all_gather_single all_gather_single_autograd all_gather_tensor all_gather_tensor_autograd
    all_gather_into_tensor_coalesced all_reduce all_reduce_coalesced all_to_all_single all_to_all_single_autograd broadcast
    permute_tensor reduce_scatter_single reduce_scatter_single_autograd reduce_scatter_tensor reduce_scatter_tensor_autograd
    reduce_scatter_tensor_coalesced""".split()
)
globals().update(_absent("_functional_collectives", "wait_tensor", "AsyncCollectiveTensor"))
