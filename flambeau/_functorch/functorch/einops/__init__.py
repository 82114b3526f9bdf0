"""functorch.einops: axes of tensors moved, joined and split as a pattern of names says."""

from flambeau._functorch.functorch.einops.rearrange import rearrange

__all__ = ["rearrange"]
