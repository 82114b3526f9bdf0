"""torch.fx.passes.utils: finding subgraphs, and making modules of them."""

from flambeau.fx.passes.utils.common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]
