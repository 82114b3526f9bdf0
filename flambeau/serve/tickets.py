"""A request on its way through the front end, and the ways in which it can end without an answer.

Stands on the standard library; used by pool and app.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from typing import Any

_prefix = os.urandom(5).hex()
_numbers = itertools.count(1)


def new_id() -> str:
    return f"{_prefix}-{next(_numbers):x}"


class Refusal(Exception):
    """A request that gets no answer of the model: the status, and why."""

    def __init__(self, status: int, message: str, kind: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.retry_after = status, kind, retry_after


class Ticket:
    """A request: what the worker is told of it, and where its answer goes.

    `future` gets (header, body) of the answer, or a Refusal. Of a stream it gets the first part, and `parts` all others;
    what comes last is not marked `more`.
    """

    __slots__ = (
        "id",
        "head",
        "body",
        "future",
        "parts",
        "arrived",
        "sent",
        "tries",
        "alone",
        "abandoned",
        "deadline",
        "begun",
        "batch",
    )

    def __init__(self, id: str, head: dict[str, Any], body: bytes, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        self.id, self.head, self.body, self.deadline = id, head, body, deadline
        self.future: asyncio.Future[tuple[dict[str, Any], bytes]] = loop.create_future()
        self.parts: asyncio.Queue[tuple[dict[str, Any], bytes] | Refusal] | None = None
        self.arrived = time.perf_counter()
        self.sent = 0.0  # when it was handed to a worker
        self.tries = 0  # workers that died on it
        self.alone = False  # it was in the batch of a worker that died, and is tried again without company
        self.abandoned = False  # nobody waits for the answer
        self.begun = False  # a part was answered
        self.batch = 0

    def answer(self, head: dict[str, Any], body: bytes) -> None:
        if not self.begun:
            self.begun = True
            if head.get("more"):
                self.parts = asyncio.Queue()
            if not self.future.done():
                self.future.set_result((head, body))
        elif self.parts is not None:
            self.parts.put_nowait((head, body))

    def refuse(self, refusal: Refusal) -> None:
        if self.begun and self.parts is not None:
            self.parts.put_nowait(refusal)
        elif not self.future.done():
            self.future.set_exception(refusal)
