"""torch.utils.data.datapipes: pipes of data sets, which PyTorch keeps for old programs."""

from flambeau.utils.data.datapipes import datapipe, iter, map

__all__ = ["datapipe", "iter", "map"]
