"""Stores whose requests go to a `table.Table`, wherever it is kept: what TCPStore, FileStore and HashStore have in common.

Stands on store; the kinds beside this file say how a request gets there, and who waits.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flambeau.distributed.errors import DistStoreError, QueueEmptyError
from flambeau.distributed.stores.store import Store, duration, encoded, key_of
from flambeau.distributed.stores.table import queue_key


class TableStore(Store):
    """A kind of store defines `_ask(request, key, *operands)` for the requests of `table.Table`, and may define `_wait`."""

    def _ask(self, request: str, *operands: Any) -> Any:
        raise NotImplementedError

    def _wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        end = time.monotonic() + timeout.total_seconds()
        while not self.check(keys):
            if time.monotonic() > end:
                raise DistStoreError("Wait timeout")
            time.sleep(0.01)

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", key_of(key, "set"), encoded(value, "set"))

    def get(self, key: str) -> bytes:
        self.wait([key_of(key, "get")])
        return self._ask("get", key)

    def add(self, key: str, amount: int) -> int:
        amount = int(amount)
        if not -1 << 63 <= amount < 1 << 63:
            raise TypeError("add(): incompatible function arguments. A number of 64 bits is added.")
        return self._ask("add", key_of(key, "add"), amount)

    def append(self, key: str, value: str | bytes) -> None:
        self._ask("append", key_of(key, "append"), encoded(value, "append"))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self._ask(
            "compare_set",
            key_of(key, "compare_set"),
            encoded(expected_value, "compare_set"),
            encoded(desired_value, "compare_set"),
        )

    def delete_key(self, key: str) -> bool:
        return self._ask("delete_key", key_of(key, "delete_key"))

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask("check", [key_of(key, "check") for key in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        keys = [key_of(key, "wait") for key in keys]
        self._wait(keys, self._timeout if timeout is None else duration(timeout, "wait"))

    def num_keys(self) -> int:
        return self._ask("num_keys")

    def list_keys(self) -> list[str]:
        return self._ask("list_keys")

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._ask("multi_set", [key_of(key, "multi_set") for key in keys], [encoded(value, "multi_set") for value in values])

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        self.wait(keys)
        return self._ask("multi_get", list(keys))

    def has_extended_api(self) -> bool:
        return True

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._ask("queue_push", key_of(key, "queue_push"), encoded(value, "queue_push"))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        end = time.monotonic() + self._timeout.total_seconds()
        while True:
            value = self._ask("queue_pop", key_of(key, "queue_pop"))
            if value is not None:
                return value
            if not block:
                raise QueueEmptyError("queue is empty")
            left = end - time.monotonic()
            self.wait([queue_key(key)], timedelta(seconds=max(left, 0)))

    def queue_len(self, key: str) -> int:
        return self._ask("queue_len", key_of(key, "queue_len"))

    def clone(self) -> Store:
        return self
