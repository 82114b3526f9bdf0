"""Exceptions of torch.distributed. Stands on base.naming; raised by stores, rendezvous and process groups."""

from flambeau.base.naming import called

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "EngineError", "PeerError", "QueueEmptyError"]


@called("distributed", "DistError")
class DistError(RuntimeError):
    """An error of the distributed library."""


@called("distributed", "DistBackendError")
class DistBackendError(DistError):
    """An error of a backend."""


class PeerError(DistBackendError):
    """An operation that can't end because another process died or left: that one's failure is the reason."""


class EngineError(DistBackendError):
    """MPI says that an operation failed."""


@called("distributed", "DistNetworkError")
class DistNetworkError(DistError):
    """An error of the network."""


@called("distributed", "DistStoreError")
class DistStoreError(DistError):
    """An error of a store."""


@called("distributed", "QueueEmptyError")
class QueueEmptyError(DistStoreError):
    """A queue of a store had nothing in it."""
