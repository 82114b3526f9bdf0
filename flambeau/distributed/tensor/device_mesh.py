"""torch.distributed.tensor.device_mesh: an older place of torch.distributed.device_mesh."""

from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
