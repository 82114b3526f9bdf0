"""torch.distributed.device_mesh: meshes of devices, which need several processes; names to import and ask `isinstance` of."""

from flambeau.core.operator import unsupported as _unsupported
from flambeau.distributed.without_group import ADVICE as _ADVICE

DeviceMesh = _unsupported.kind("distributed.device_mesh.DeviceMesh", _ADVICE)
init_device_mesh = _unsupported.function("distributed.device_mesh.init_device_mesh", _ADVICE)
