"""torch.distributed._tensor.experimental: the older place of torch.distributed.tensor.experimental."""

from flambeau.distributed.tensor import experimental as _experimental

globals().update((name, value) for name, value in vars(_experimental).items() if not name.startswith("_"))
