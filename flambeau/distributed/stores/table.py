"""The table of a store: values by key, queues by key, and the requests that change them, by one thread at a time.

Stands on nothing; used by the stores beside it, which say who waits for what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar


def queue_key(key: str) -> str:
    """The key that is there as long as a queue has values."""
    return f"queue/{key}"


class Table:
    """Values and queues by key. Every method but `answer` is a request."""

    #: The types of each request's operands, which may come from a stranger.
    REQUESTS: ClassVar[dict[str, tuple[Any, ...]]] = {
        "set": (str, bytes),
        "get": (str,),
        "add": (str, int),
        "append": (str, bytes),
        "compare_set": (str, bytes, bytes),
        "delete_key": (str,),
        "check": ([str],),
        "num_keys": (),
        "list_keys": (),
        "multi_set": ([str], [bytes]),
        "multi_get": ([str],),
        "queue_push": (str, bytes),
        "queue_pop": (str,),
        "queue_len": (str,),
    }

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def answer(self, request: str, *operands: Any) -> Any:
        """What a request by name returns. Raises ValueError for one that there isn't, or whose operands are wrong."""
        if request not in self.REQUESTS:
            raise ValueError(f"a store has no request {request!r}")
        check(request, operands, self.REQUESTS[request])
        return getattr(self, request)(*operands)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes:
        if key not in self.values:
            raise KeyError(key)
        return self.values[key]

    def add(self, key: str, amount: int) -> int:
        present = self.values.get(key, b"0")
        try:
            total = int(present) + amount
        except ValueError:
            raise ValueError(f"add: the value of {key!r} is no number: {present!r}") from None
        if not -1 << 63 <= total < 1 << 63:
            raise ValueError(f"add: {total} is beyond 64 bits")
        self.values[key] = str(total).encode()
        return total

    def append(self, key: str, value: bytes) -> None:
        self.values[key] = self.values.get(key, b"") + value

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        present = self.values.get(key)
        if present is None and expected:
            return expected
        if present is None or present == expected:
            self.values[key] = desired
        return self.values[key]

    def delete_key(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values or self._waiting_in_queue(key) for key in keys)

    def missing(self, keys: list[str]) -> list[str]:
        """Those of the keys that aren't there."""
        return [key for key in keys if not self.check([key])]

    def _waiting_in_queue(self, key: str) -> bool:
        return key.startswith(queue_key("")) and bool(self.queues.get(key[len(queue_key("")) :]))

    def num_keys(self) -> int:
        return len(self.values)

    def list_keys(self) -> list[str]:
        return list(self.values)

    def multi_set(self, keys: list[str], values: list[bytes]) -> None:
        self.values.update(zip(keys, values))

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def queue_push(self, key: str, value: bytes) -> None:
        self.queues.setdefault(key, deque()).append(value)

    def queue_pop(self, key: str) -> bytes | None:
        queue = self.queues.get(key)
        return queue.popleft() if queue else None

    def queue_len(self, key: str) -> int:
        return len(self.queues.get(key, ()))


def check(request: str, operands: Sequence[Any], kinds: Sequence[Any]) -> None:
    """Raise ValueError unless the operands are of these types; [t]: a list of t."""
    if len(kinds) != len(operands) or not all(map(_is, operands, kinds)):
        raise ValueError(f"wrong operands of {request!r}")


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, list):
        return isinstance(value, list) and all(isinstance(each, kind[0]) for each in value)
    return isinstance(value, kind)
