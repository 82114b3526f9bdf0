"""torch.distributed.tensor.debug: which collectives a program makes, by module (`CommDebugMode`), and how a tensor lies."""

from flambeau.distributed.tensor.debug._comm_mode import CommDebugMode
from flambeau.distributed.tensor.debug._visualize_sharding import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]

CommDebugMode.__module__ = visualize_sharding.__module__ = __name__
