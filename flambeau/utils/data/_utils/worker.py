"""torch.utils.data._utils.worker: a face of flambeau.utils.data.worker."""

from flambeau.utils.data.worker import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
