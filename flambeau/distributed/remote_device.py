"""torch.distributed.remote_device: a device of another process, by that one's name or rank."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.base.naming import called


@called("distributed", "_remote_device")
class _remote_device:
    """_remote_device("worker1/cpu"), _remote_device("rank:1/cpu"), or a device of this process. Raises ValueError for others."""

    def __init__(self, remote_device: Any) -> None:
        wrong = ValueError(
            f"Could not parse remote_device: {remote_device}. The valid format is '<workername>/<device>' or "
            "'rank:<rank>/<device>' or '<device>'"
        )
        if isinstance(remote_device, torch.device):
            remote_device = str(remote_device)
        if not isinstance(remote_device, str):
            raise TypeError(f"Invalid type for remote_device: {type(remote_device)}")
        self._worker_name: str | None = None
        self._rank: int | None = None
        whose, slash, device = remote_device.rpartition("/")
        if "/" in whose or (slash and not whose):
            raise wrong
        if whose.startswith("rank:"):
            if not whose[5:].isdigit():
                raise wrong
            self._rank = int(whose[5:])
        elif whose:
            self._worker_name = whose
        self._device = torch.device(device or "cpu")

    def worker_name(self) -> str | None:
        """The process's name; None if it is by rank or this one."""
        return self._worker_name

    def rank(self) -> int | None:
        """The process's rank; None if it is by name or this one."""
        return self._rank

    def device(self) -> Any:
        """The device there."""
        return self._device

    def __repr__(self) -> str:
        whose = self._worker_name if self._rank is None else f"rank:{self._rank}"
        return str(self._device) if whose is None else f"{whose}/{self._device}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))
