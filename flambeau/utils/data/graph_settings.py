"""torch.utils.data.graph_settings: settings of graphs of pipes, which there are none of (torch.utils.data.IterDataPipe)."""

from flambeau.core.operator import unsupported as _unsupported

globals().update(_unsupported.all_of(
    "utils.data.graph_settings.", "write a Dataset or an IterableDataset, and seed its sampler by a generator",
    "apply_random_seed apply_sharding apply_shuffle_seed apply_shuffle_settings get_all_graph_pipes"))
