"""torch.ao.pruning: masks that make weights sparse, and how sparse they are to be over time. Stands on nn.utils.parametrize."""

from flambeau.ao.pruning.scheduler.base_scheduler import BaseScheduler
from flambeau.ao.pruning.scheduler.cubic_scheduler import CubicSL
from flambeau.ao.pruning.scheduler.lambda_scheduler import LambdaSL
from flambeau.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from flambeau.ao.pruning.sparsifier.nearly_diagonal_sparsifier import NearlyDiagonalSparsifier
from flambeau.ao.pruning.sparsifier.utils import FakeSparsity, fqn_to_module, get_arg_info_from_tensor_fqn, module_to_fqn
from flambeau.ao.pruning.sparsifier.weight_norm_sparsifier import WeightNormSparsifier

__all__ = [
    "BaseScheduler",
    "BaseSparsifier",
    "CubicSL",
    "FakeSparsity",
    "LambdaSL",
    "NearlyDiagonalSparsifier",
    "WeightNormSparsifier",
    "fqn_to_module",
    "get_arg_info_from_tensor_fqn",
    "module_to_fqn",
]
