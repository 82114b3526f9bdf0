"""What a worker serves: a loaded model that answers several requests at once.

Stands on answers; used by worker, models and the handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from flambeau.serve.answers import Answer, Item, Refused, error

log = logging.getLogger(__name__)
T = TypeVar("T")


def attempt(item: Item, do: Callable[..., T], *arguments: Any) -> T | Answer:
    """What one request needs done by itself; where that fails, the answer that says so, and no other request knows of it."""
    try:
        return do(*arguments)
    except Refused as refusal:
        return error(refusal.status, str(refusal), item.route)
    except Exception as problem:
        return failure([item], problem, "server")[0]


def failure(items: Sequence[Item], problem: Exception, who: str) -> list[Answer]:
    """Say in the log why requests weren't computed, and to each client where to look."""
    log.error("the %s failed", who, exc_info=problem, extra={"requests": [item.request for item in items]})
    return [error(500, f"the {who} failed; its log says more under {item.request}", item.route) for item in items]


class Service:
    """A loaded model. What `answer` is given are at most `max_batch_size` requests, of the routes in `routes`.

    A `continuous` one gets requests one by one while others are being computed (see handlers.generation): `admit` takes one,
    `step` computes a little for all.
    """

    routes: frozenset[str] = frozenset({"predict"})
    max_batch_size = 1
    continuous = False

    def answer(self, items: Sequence[Item]) -> list[Answer]:
        """One answer per request, in their order. What is wrong with one request is said in its answer, and hurts no other."""
        raise NotImplementedError

    def warm_up(self, sample: bytes | None) -> None:
        """Compute once what requests will need, so that the first doesn't wait for the compiler."""

    def metadata(self) -> dict[str, Any]:
        """Inputs and outputs in KServe's words."""
        return {"inputs": [], "outputs": []}


class Continuous(Service):
    """A service whose batch changes while it is computed."""

    continuous = True

    def admit(self, item: Item) -> Answer | None:
        """Take a request into the batch; an answer if there is nothing to compute."""
        raise NotImplementedError

    def step(self, ready: list[tuple[str, Answer]]) -> None:
        """Compute one step for all requests in the batch; `ready` gets ids of requests and parts of their answers."""
        raise NotImplementedError

    def cancel(self, ids: set[str]) -> None:
        """Forget these requests: nobody waits for them."""
        raise NotImplementedError

    def busy(self) -> bool:
        """Whether there is something to compute."""
        raise NotImplementedError

    def fail(self) -> list[str]:
        """Forget all requests, after a step that raised; their ids."""
        raise NotImplementedError
