"""torch.nn.utils._expanded_weights: parameters that stand for one per sample of a batch."""

from flambeau.nn.utils._expanded_weights.expanded_weights_impl import ExpandedWeight

__all__ = ["ExpandedWeight"]
