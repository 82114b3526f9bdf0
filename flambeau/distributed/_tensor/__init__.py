"""torch.distributed._tensor: the older place of torch.distributed.tensor."""

from flambeau.distributed import tensor as _tensor

globals().update((name, value) for name, value in vars(_tensor).items() if not name.startswith("_"))
