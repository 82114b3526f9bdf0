"""What init_rpc is told: the backend, its threads and its timeouts. Stands on nothing of the room."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from flambeau.base.naming import called

DEFAULT_RPC_TIMEOUT_SEC = 60.0
DEFAULT_INIT_METHOD = "env://"
DEFAULT_NUM_WORKER_THREADS = 16


@called("distributed.rpc.backend_registry", "BackendType")
class BackendType(enum.Enum):
    """The ways by which calls travel, of which there is one: connections between all processes."""

    TENSORPIPE = 1


@called("distributed.rpc", "WorkerInfo")
class WorkerInfo(NamedTuple):
    """A process that calls can be sent to. Made by init_rpc; get_worker_info gives it."""

    name: str
    id: int

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


@called("distributed.rpc", "RpcBackendOptions")
class RpcBackendOptions:
    """rpc_timeout: seconds that a call may take, 0 for any; init_method: where the processes meet, as of init_process_group."""

    def __init__(self, rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC, init_method: str = DEFAULT_INIT_METHOD) -> None:
        self.rpc_timeout, self.init_method = float(rpc_timeout), init_method


@called("distributed.rpc.options", "TensorPipeRpcBackendOptions")
class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """num_worker_threads: how many calls of others run here at a time. device_maps, devices: there is the CPU only."""

    def __init__(
        self,
        *,
        num_worker_threads: int = DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = DEFAULT_INIT_METHOD,
        device_maps: dict[str, Any] | None = None,
        devices: list[Any] | None = None,
        _transports: list[str] | None = None,
        _channels: list[str] | None = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        self.num_worker_threads, self.device_maps, self.devices = num_worker_threads, device_maps or {}, devices or []

    def set_device_map(self, to: str, device_map: dict[Any, Any]) -> None:
        """Raises ValueError for devices that there aren't."""
        if any(str(each) != "cpu" for pair in device_map.items() for each in pair):
            raise ValueError(f"calls move tensors from the CPU to the CPU only, not as {device_map}")
        self.device_maps.setdefault(to, {}).update(device_map)

    def set_devices(self, devices: list[Any]) -> None:
        """Raises ValueError for devices that there aren't."""
        if any(str(each) != "cpu" for each in devices):
            raise ValueError(f"calls move tensors of the CPU only, not of {devices}")
        self.devices = devices
