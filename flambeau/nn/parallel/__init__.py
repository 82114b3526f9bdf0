"""Running one module on several devices. On a machine without accelerators DataParallel runs the module itself."""

from flambeau.nn.parallel import distributed, scatter_gather
from flambeau.nn.parallel.data_parallel import DataParallel, data_parallel
from flambeau.nn.parallel.distributed import DistributedDataParallel
from flambeau.nn.parallel.scatter_gather import gather, parallel_apply, replicate, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "distributed", "gather", "parallel_apply", "replicate", "scatter",
    "scatter_gather",
]  # fmt: skip
