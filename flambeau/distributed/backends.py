"""Backends by name. There is one engine, MPI on the CPU, which answers to the names of PyTorch's.

Stands on mpi.library; groups asks it, and the package offers its names on.
"""

from __future__ import annotations

from typing import Any, ClassVar

from flambeau.base.naming import called
from flambeau.distributed.mpi import library

_OURS = ("gloo", "mpi")
_REFUSED = {"nccl": "NCCL", "xccl": "XCCL", "ucc": "UCC"}


@called("distributed.distributed_c10d", "Backend")
class Backend(str):
    """The name of a backend, in lower case. Raises ValueError for what is no string."""

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability: ClassVar[dict[str, list[str]]] = {GLOO: ["cpu"], MPI: ["cpu"]}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name: str, func: Any, extended_api: bool = False, devices: Any = None) -> None:
        """Backends of other packages aren't supported: raises NotImplementedError."""
        raise NotImplementedError(
            f"torch.distributed.Backend.register_backend({name!r}) is not implemented in flambeau: MPI is its only engine")


@called("distributed.distributed_c10d", "BackendConfig")
class BackendConfig:
    """A backend for each type of device. given: as it was asked for; None or "undefined": each device's default."""

    def __init__(self, given: str | None) -> None:
        self.given = given
        name = given or "undefined"
        if name == "undefined":
            self.device_backend_map = {"cpu": "gloo"}
        elif ":" in name:
            self.device_backend_map = dict(part.split(":", 1) for part in name.split(","))
        else:
            self.device_backend_map = {"cpu": name, "cuda": name}

    def of_cpu(self) -> str:
        """The backend on the CPU."""
        return self.device_backend_map["cpu"]

    def get_device_backend_map(self) -> dict[str, str]:
        """The backend of each type of device."""
        return dict(self.device_backend_map)

    def __repr__(self) -> str:
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())


def checked_backend(backend: Any) -> str | None:
    """A backend's name in lower case, if the engine answers to it. Raises ValueError, AssertionError or RuntimeError."""
    if backend is None:
        return None
    name = str(Backend(backend))
    parts = [part.partition(":")[::2] for part in name.split(",")] if ":" in name else [("cpu", name)]
    devices = dict(parts)
    if len(devices) != len(parts):
        raise ValueError(f"Duplicate device type {parts} in backend string: {name}. Only one backend per device type is allowed.")
    for device, each in parts:
        if device == "cuda" and each == "nccl" and "cpu" in devices:
            continue    # there is no such device here, so that nobody asks for it
        if each in _REFUSED:
            raise RuntimeError(f"Distributed package doesn't have {_REFUSED[each]} built in")
        if each not in (*_OURS, "undefined"):
            raise AssertionError(f"Unknown backend type {each}")
    if "cpu" not in devices:
        raise RuntimeError(f"backend {name!r} has none for the CPU: flambeau computes there; use 'gloo' or 'cpu:gloo'")
    return name


def is_backend_available(backend: str) -> bool:
    """Whether a backend of this name is there: "gloo" and "mpi" where MPI is installed."""
    return str(backend).lower() in _OURS and library.is_available()


def is_gloo_available() -> bool:
    """Whether MPI is installed, which answers to this name."""
    return library.is_available()


def is_mpi_available() -> bool:
    """Whether MPI is installed."""
    return library.is_available()


def is_nccl_available() -> bool:
    """False: there is no GPU."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def get_default_backend_for_device(device: Any) -> str:
    """The backend that PyTorch takes for a device's type. Raises ValueError for a type without one."""
    kind = str(getattr(device, "type", device)).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {kind}")
    return Backend.default_device_backend_map[kind]
