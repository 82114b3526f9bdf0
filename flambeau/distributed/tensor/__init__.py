"""torch.distributed.tensor: tensors whose parts lie on several processes, used as if they were whole (DTensor).

`placement_types` says how a tensor lies along a dimension of a mesh, `_api` has DTensor, `_redistribute` moves parts, `_dispatch`
computes with them by the rules in `_ops`, `parallel` makes modules of it.
"""

from flambeau import serialize as _serialize
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.tensor import _dispatch as _dispatch
from flambeau.distributed.tensor._api import DTensor, _rebuilt, distribute_module, distribute_tensor
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec as _DTensorSpec
from flambeau.distributed.tensor._dtensor_spec import TensorMeta as _TensorMeta
from flambeau.distributed.tensor._factories import empty, full, ones, rand, randn, zeros
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _NormPartial, _StridedShard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty",
    "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]  # fmt: skip

# What a saved DTensor is made of, so that torch.load(weights_only=True) takes it.
_serialize.add_safe_globals([
    DTensor, DeviceMesh, Partial, Replicate, Shard, _DTensorSpec, _NormPartial, _StridedShard, _TensorMeta, _rebuilt,
])  # fmt: skip
