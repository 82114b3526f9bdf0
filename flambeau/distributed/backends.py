"""Backends by name: the engine, MPI on the CPU, which answers to the names of PyTorch's, and those that programs register.

Stands on mpi.library; plugins and groups ask it, and the package offers its names on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from flambeau.base.naming import called
from flambeau.distributed.mpi import library

_OURS = ("gloo", "mpi")
_OPEN = ("fake", "ucc", "undefined")  # names without an engine here, which a program may give one
_REFUSED = {"nccl": "NCCL", "xccl": "XCCL", "ucc": "UCC"}


class Plugin(NamedTuple):
    """What makes the groups of a registered backend; extended_api: how it is called."""

    creator_fn: Callable[..., Any]
    extended_api: bool


@called("distributed.distributed_c10d", "Backend")
class Backend(str):
    """The name of a backend, in lower case. Raises ValueError for what is no string."""

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        GLOO: ["cpu", "cuda"],
        NCCL: ["cuda"],
        XCCL: ["xpu"],
        UCC: ["cpu", "cuda"],
        MPI: ["cpu", "cuda"],
    }
    _plugins: ClassVar[dict[str, Plugin]] = {}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: str, func: Callable[..., Any], extended_api: bool = False, devices: str | Sequence[str] | None = None
    ) -> None:
        """Have func make the groups of backend `name`: func(store, rank, size, timeout), or with extended_api func(options of the
        group, pg_options). It returns a ProcessGroup, or an object with operations of one. devices: the types of device that it
        is for, and is the default of if they have none. Raises AssertionError if there is a backend of this name.
        """
        upper = name.upper()
        if upper in cls._plugins or (hasattr(cls, upper) and name.lower() not in _OPEN):
            raise AssertionError(f"{upper} c10d backend already exist")
        if devices is None:
            warnings.warn(
                f"Device capability of {name} unspecified, assuming `cpu` and `cuda` or `xpu`. Please specify it via "
                "the `devices` argument of `register_backend`.",
                stacklevel=2,
            )
        wanted = ["cpu", "cuda", "xpu"] if devices is None else [devices] if isinstance(devices, str) else list(devices)
        setattr(cls, upper, name.lower())
        if name.lower() not in cls.backend_list:
            cls.backend_list.append(name.lower())
        for device in wanted if devices is not None else ():
            cls.default_device_backend_map.setdefault(device, name.lower())
        cls.backend_capability[name.lower()] = wanted
        cls._plugins[upper] = Plugin(func, extended_api)

    @classmethod
    def plugin(cls, name: str) -> Plugin | None:
        """What was registered under a name."""
        return cls._plugins.get(name.upper())


@called("distributed.distributed_c10d", "BackendConfig")
class BackendConfig:
    """A backend for each type of device. given: as it was asked for; None or "undefined": each device's default."""

    def __init__(self, given: str | None) -> None:
        self.given = given
        name = given or "undefined"
        if name == "undefined":
            self.device_backend_map = {"cpu": "gloo"}
        elif ":" in name:
            self.device_backend_map = _by_device(name)
        else:
            name = name.lower()
            self.device_backend_map = dict.fromkeys(Backend.backend_capability.get(name, ["cpu", "cuda"]), name)

    def of_cpu(self) -> str:
        """The backend on the CPU."""
        return self.device_backend_map["cpu"]

    def get_device_backend_map(self) -> dict[str, str]:
        """The backend of each type of device."""
        return dict(self.device_backend_map)

    def __repr__(self) -> str:
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())


def _by_device(name: str) -> dict[str, str]:
    """The backends of `cpu:gloo,cuda:nccl` by device. Raises ValueError for a device twice, and for what isn't of this form."""
    found: dict[str, str] = {}
    for part in name.lower().split(","):
        device, colon, backend = part.partition(":")
        if not (device and colon and backend) or ":" in backend:
            raise ValueError(f"Invalid device:backend pairing: {part!r} in {name!r}: write <device>:<backend>,<device>:<backend>")
        if device in found:
            raise ValueError(
                f"Duplicate device type {device} in backend string: {name}. Only one backend per device type is allowed."
            )
        found[device] = backend
    return found


def checked_backend(backend: Any) -> str | None:
    """A backend's name in lower case, if the engine answers to it. Raises ValueError, AssertionError or RuntimeError."""
    if backend is None:
        return None
    name = str(Backend(backend))
    devices = _by_device(name) if ":" in name else {"cpu": name}
    for device, each in devices.items():
        if device == "cuda" and each == "nccl" and "cpu" in devices:
            continue  # there is no such device here, so that nobody asks for it
        if Backend.plugin(each) is not None:
            continue
        if each in _REFUSED:
            raise RuntimeError(f"Distributed package doesn't have {_REFUSED[each]} built in")
        if each not in (*_OURS, "undefined"):
            raise AssertionError(f"Unknown backend type {each}")
    if "cpu" not in devices and all(Backend.plugin(each) is None for each in devices.values()):
        raise RuntimeError(f"backend {name!r} has none for the CPU: flambeau computes there; use 'gloo' or 'cpu:gloo'")
    return name


def is_backend_available(backend: str) -> bool:
    """Whether a backend of this name is there: "gloo" and "mpi" where MPI is installed, and what was registered."""
    return Backend.plugin(str(backend)) is not None or (str(backend).lower() in _OURS and library.is_available())


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
