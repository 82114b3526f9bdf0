"""Running one module on several devices. On a machine without accelerators DataParallel runs the module itself."""

from flambeau.nn.parallel.data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]
