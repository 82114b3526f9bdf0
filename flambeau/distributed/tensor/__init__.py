"""torch.distributed.tensor: tensors whose parts lie on several processes, used as if they were whole (DTensor).

`placement_types` says how a tensor lies along a dimension of a mesh, `_api` has DTensor, `_redistribute` moves parts, `_dispatch`
computes with them by the rules in `_ops`, `parallel` makes modules of it.
"""

from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.tensor import _dispatch as _dispatch
from flambeau.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from flambeau.distributed.tensor._factories import empty, full, ones, rand, randn, zeros
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty",
    "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]  # fmt: skip
