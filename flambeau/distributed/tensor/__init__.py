"""torch.distributed.tensor: tensors over several devices, which need several processes.

Placements are values; DTensor is a name to import and to ask `isinstance` of, for no tensor here is one.
"""

from flambeau.core.operator import unsupported as _unsupported
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from flambeau.distributed.without_group import ADVICE as _ADVICE
from flambeau.distributed.without_group import absent as _several_absent

DTensor = _unsupported.kind("distributed.tensor.DTensor", _ADVICE)
globals().update(_several_absent("tensor", "distribute_module distribute_tensor empty full ones rand randn zeros"))

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "init_device_mesh"]
