"""torch.distributed.checkpoint.logger: when saves and loads begin, end and fail, for a program that wants to know.

The logger "c10d-NullHandler-dcp_logger" gets a dict of each event at level DEBUG, a failure at ERROR; it has no handler but
what programs add. Used by `state_dict_saver` and `state_dict_loader`.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.checkpoint.logging_handlers import DCP_LOGGER_NAME

__all__: list[str] = []

P = ParamSpec("P")
T = TypeVar("T")

_dcp_logger = logging.getLogger(f"c10d-NullHandler-{DCP_LOGGER_NAME}")
_dcp_logger.addHandler(logging.NullHandler())
_dcp_logger.setLevel(logging.DEBUG)
_dcp_logger.propagate = False


def _event(function: str, options: dict[str, Any]) -> dict[str, Any]:
    initialized = c10d.is_initialized()
    writer, reader = options.get("storage_writer"), options.get("storage_reader")
    name = options.get("checkpoint_id") or getattr(writer or reader, "checkpoint_id", None)
    return {
        "func_name": function, "checkpoint_id": name,
        "rank": c10d.get_rank() if initialized else 0, "world_size": c10d.get_world_size() if initialized else 1,
        "uuid": uuid4().int,
    }  # fmt: skip


def logged(function: Callable[P, T]) -> Callable[P, T]:
    """Has a function log its begin and end, with its duration in ns, or its failure."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        event = _event(function.__name__, dict(kwargs))
        begin = time.time_ns()
        _dcp_logger.debug({**event, "event": "start", "time": begin})
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _dcp_logger.error({**event, "event": "exception", "error": str(error), "time": time.time_ns()})
            raise
        end = time.time_ns()
        _dcp_logger.debug({**event, "event": "end", "time": end, "time_spent": end - begin})
        return result

    return run
