"""torch.utils.data._utils.worker: a face of flambeau.utils.data.worker."""

from flambeau.utils.data.worker import WorkerInfo, get_worker_info
from flambeau.utils.data.worker import numpy_seed as _generate_state

__all__ = ["WorkerInfo", "_generate_state", "get_worker_info"]
