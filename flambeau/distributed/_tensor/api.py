"""torch.distributed._tensor.api: an older place of torch.distributed.tensor."""

from flambeau.distributed.tensor import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros

__all__ = ["DTensor", "distribute_module", "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros"]
