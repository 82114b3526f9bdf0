"""torch.Stream and torch.Event of any device: on the CPU every call is finished when it returns, so there is nothing to wait for.

Stands on base.device; the namespace offers both.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.device import device as Device
from flambeau.base.naming import PACKAGE

__all__ = ["Event", "Stream"]

_NO_EVENTS = "cpu backend doesn't support events."
_INDICES = {"cpu": 0, "cuda": 1, "meta": 14}


def _checked(device: Any) -> Device:
    found = Device("cpu" if device is None else device)
    if found.type not in ("cpu", "meta"):
        raise RuntimeError(f"PyTorch is not linked with support for {found.type} devices")
    return found


class Stream:
    """Work in order on a device. RuntimeError for devices that there aren't."""

    __module__ = PACKAGE

    def __init__(self, device: Any = None, *, priority: int = 0, stream_id: int = 0) -> None:
        self.device = _checked(device)
        self.stream_id = stream_id

    @property
    def device_index(self) -> int:
        """The number of the device, -1 for none."""
        return -1 if self.device.index is None else self.device.index

    @property
    def device_type(self) -> int:
        """PyTorch's number for the kind of device."""
        return _INDICES[self.device.type]

    def query(self) -> bool:
        """True: all work is done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: Stream) -> None:
        """RuntimeError: there are no events on the CPU."""
        raise RuntimeError(_NO_EVENTS)

    def record_event(self, event: Event | None = None) -> Event:
        """RuntimeError: there are no events on the CPU."""
        raise RuntimeError(_NO_EVENTS)

    def is_capturing(self) -> bool:
        """False."""
        return False

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event:
    """A moment of a stream; on the CPU it has always happened."""

    __module__ = PACKAGE

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device, self.event_id, self._timing = _checked(device), 0, enable_timing

    def query(self) -> bool:
        """True: it has happened."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """RuntimeError: there are no events on the CPU."""
        raise RuntimeError(_NO_EVENTS)

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Event) -> float:
        """ValueError for events without timing, RuntimeError for others: they are never recorded on the CPU."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise RuntimeError(_NO_EVENTS)

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        flag = int(self._timing)
        return f"torch.Event device_type={self.device.type}, device_index={index}, event_flag={flag}, event_id={self.event_id}"
