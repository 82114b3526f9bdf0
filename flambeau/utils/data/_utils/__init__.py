"""Names that programs import from torch.utils.data._utils; everything lives in the rooms above."""

from flambeau.utils.data._utils import collate, worker

__all__ = ["collate", "worker"]
