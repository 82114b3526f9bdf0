"""What every store offers, in terms of a few requests that a kind of store answers; and a store below a prefix.

A value is bytes; text is taken as UTF-8. What waits gives up after the store's timeout. Stands on distributed.errors;
the kinds of stores beside this file build on it, and rendezvous and process groups use them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flambeau.base.naming import called
from flambeau.distributed.errors import DistStoreError, QueueEmptyError

DEFAULT_TIMEOUT = timedelta(minutes=5)


def encoded(value: str | bytes, function: str) -> bytes:
    """A value as bytes. Raises TypeError for what is neither text nor bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"{function}(): incompatible function arguments. A value is str or bytes, not {type(value).__name__}.")


def key_of(key: str, function: str) -> str:
    """A key. Raises TypeError for what isn't text."""
    if not isinstance(key, str):
        raise TypeError(f"{function}(): incompatible function arguments. A key is str, not {type(key).__name__}.")
    return key


def duration(timeout: timedelta, function: str) -> timedelta:
    """A timeout. Raises TypeError for what is no timedelta."""
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"{function}(): incompatible function arguments. A timeout is datetime.timedelta, not {type(timeout).__name__}.")
    return timeout


@called("distributed.distributed_c10d", "Store")
class Store:
    """A table of bytes by key that several processes share.

    A kind of store defines `_ask(request, key, *operands)` for the requests of `table.Table` and `_wait(keys, timeout)`.
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    def _ask(self, request: str, *operands: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {request}: use TCPStore, FileStore, HashStore or PrefixStore")

    def _wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        end = time.monotonic() + timeout.total_seconds()
        while not self.check(keys):
            if time.monotonic() > end:
                raise DistStoreError("Wait timeout")
            time.sleep(0.01)

    # ------------------------------------------------------------------------------------------------------------ values

    @property
    def timeout(self) -> timedelta:
        """How long what waits does so."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long what waits does so."""
        self._timeout = duration(timeout, "set_timeout")

    def set(self, key: str, value: str | bytes) -> None:
        """Put a value under a key."""
        self._ask("set", key_of(key, "set"), encoded(value, "set"))

    def get(self, key: str) -> bytes:
        """The value of a key; waits for it. Raises DistStoreError after the timeout."""
        self.wait([key_of(key, "get")])
        return self._ask("get", key)

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key (0 if there is none) and return it."""
        amount = int(amount)
        if not -1 << 63 <= amount < 1 << 63:
            raise TypeError("add(): incompatible function arguments. A number of 64 bits is added.")
        return self._ask("add", key_of(key, "add"), amount)

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value."""
        self._ask("append", key_of(key, "append"), encoded(value, "append"))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Put the desired value if the present one is the expected one (empty: or if there is none). Returns what is there
        then, or the expected value if there is nothing.
        """
        return self._ask("compare_set", key_of(key, "compare_set"), encoded(expected_value, "compare_set"),
                         encoded(desired_value, "compare_set"))

    def delete_key(self, key: str) -> bool:
        """Take a key out; whether it was there."""
        return self._ask("delete_key", key_of(key, "delete_key"))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return self._ask("check", [key_of(key, "check") for key in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there. Raises DistStoreError after the timeout (default: the store's)."""
        keys = [key_of(key, "wait") for key in keys]
        self._wait(keys, self._timeout if timeout is None else duration(timeout, "wait"))

    def num_keys(self) -> int:
        """How many keys there are."""
        return self._ask("num_keys")

    def list_keys(self) -> list[str]:
        """All keys."""
        return self._ask("list_keys")

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Put several values."""
        self._ask("multi_set", [key_of(key, "multi_set") for key in keys], [encoded(value, "multi_set") for value in values])

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of keys; waits for them."""
        self.wait(keys)
        return self._ask("multi_get", list(keys))

    def has_extended_api(self) -> bool:
        """Whether append, multi_get and multi_set are there: they are."""
        return True

    # ------------------------------------------------------------------------------------------------------------ queues

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""
        self._ask("queue_push", key_of(key, "queue_push"), encoded(value, "queue_push"))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue; waits for one, or raises QueueEmptyError if `block` is False."""
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
        """How many values a queue has."""
        return self._ask("queue_len", key_of(key, "queue_len"))

    # ------------------------------------------------------------------------------------------------------------ groups

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` callers have come to the barrier of this name."""
        if self.add(f"{key}/arrived", 1) >= world_size:
            self.set(f"{key}/open", b"")
        self.wait([f"{key}/open"], timeout)

    def clone(self) -> Store:
        """Another way to the same table, which a thread of its own may use."""
        return self


def queue_key(key: str) -> str:
    """The key that is there as long as a queue has values."""
    return f"queue/{key}"


@called("distributed.distributed_c10d", "PrefixStore")
class PrefixStore(Store):
    """The keys of another store that begin with `prefix/`."""

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self._store = key_of(prefix, "PrefixStore"), store

    def _inner(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    @property
    def underlying_store(self) -> Store:
        """The store that keeps the values."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store = self._store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    @property
    def timeout(self) -> timedelta:
        """How long what waits does so: that of the store that keeps the values."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of the store that keeps the values."""
        self._store.set_timeout(timeout)

    @property
    def _timeout(self) -> timedelta:  # type: ignore[override]
        return self._store.timeout

    def _ask(self, request: str, *operands: Any) -> Any:
        if request == "num_keys":
            return self._store._ask(request)
        if request == "list_keys":
            inside = self._inner("")
            return [key[len(inside):] for key in self._store._ask(request) if key.startswith(inside)]
        key, *rest = operands
        inner: Any = [self._inner(each) for each in key] if isinstance(key, list) else self._inner(key)
        return self._store._ask(request, inner, *rest)

    def _wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        # The key of a queue has the prefix inside.
        self._store._wait([queue_key(self._inner(key[len(queue_key("")):])) if key.startswith(queue_key("")) else
                           self._inner(key) for key in keys], timeout)

    def clone(self) -> PrefixStore:
        """The same prefix of a clone of the store."""
        return PrefixStore(self._prefix, self._store.clone())
