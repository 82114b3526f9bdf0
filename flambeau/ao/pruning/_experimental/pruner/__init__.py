"""torch.ao.pruning._experimental.pruner: rows of weights that are masked, and then taken out. Stands on its modules."""

from flambeau.ao.pruning._experimental.pruner.base_structured_sparsifier import BaseStructuredSparsifier
from flambeau.ao.pruning._experimental.pruner.FPGM_pruner import FPGMPruner
from flambeau.ao.pruning._experimental.pruner.parametrization import BiasHook, FakeStructuredSparsity
from flambeau.ao.pruning._experimental.pruner.saliency_pruner import LSTMSaliencyPruner, SaliencyPruner

__all__ = ["BaseStructuredSparsifier", "BiasHook", "FPGMPruner", "FakeStructuredSparsity", "LSTMSaliencyPruner", "SaliencyPruner"]
