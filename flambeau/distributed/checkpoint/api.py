"""torch.distributed.checkpoint.api: the exception in which the failures of all ranks come together."""

from __future__ import annotations

import traceback
from typing import Any

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """The failures of the processes that took part, by rank, as `failures`: (exception, its traceback)."""

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Any]:
        """The failures by rank."""
        return self._failures

    def __str__(self) -> str:
        text = f"CheckpointException ranks:{self._failures.keys()}\n"
        for rank, (error, trace) in self._failures.items():
            text += f"Traceback (most recent call last): (RANK {rank})\n"
            text += "".join(traceback.format_list(trace) if trace is not None else [])
            text += "".join(traceback.format_exception_only(type(error), value=error))
        return text
