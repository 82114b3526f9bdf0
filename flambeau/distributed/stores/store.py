"""What every store offers: a table of bytes by key. Programs may define kinds of their own.

A value is bytes; text is taken as UTF-8. What waits gives up after the store's timeout. Stands on nothing; the kinds of stores
beside this file build on it, and rendezvous and process groups use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from flambeau.base.naming import called

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
            f"{function}(): incompatible function arguments. A timeout is datetime.timedelta, not {type(timeout).__name__}."
        )
    return timeout


@called("distributed.distributed_c10d", "Store")
class Store:
    """A table of bytes by key that several processes share.

    A program's own kind defines set, get, add and compare_set, and what else it is to be asked for: NotImplementedError tells. By
    has_extended_api it says that it has append, multi_set and multi_get too; a PrefixStore on it makes them of the others if not.
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    def _absent(self, name: str) -> NotImplementedError:
        kind = type(self).__name__
        return NotImplementedError(f"Not implemented. {kind} has no {name}: define it, or use TCPStore, FileStore or HashStore")

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
        raise self._absent("set")

    def get(self, key: str) -> bytes:
        """The value of a key; waits for it. Raises DistStoreError after the timeout."""
        raise self._absent("get")

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key (0 if there is none) and return it."""
        raise self._absent("add")

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value."""
        raise self._absent("append")

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Put the desired value if the present one is the expected one (empty: or if there is none). Returns what is there
        then, or the expected value if there is nothing.
        """
        raise self._absent("compare_set")

    def delete_key(self, key: str) -> bool:
        """Take a key out; whether it was there."""
        raise self._absent("delete_key")

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        raise self._absent("check")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there. Raises DistStoreError after the timeout (default: the store's)."""
        raise self._absent("wait")

    def num_keys(self) -> int:
        """How many keys there are."""
        raise self._absent("num_keys")

    def list_keys(self) -> list[str]:
        """All keys."""
        raise self._absent("list_keys")

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Put several values."""
        raise self._absent("multi_set")

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of keys; waits for them."""
        raise self._absent("multi_get")

    def has_extended_api(self) -> bool:
        """Whether append, multi_get and multi_set are there."""
        return False

    # ------------------------------------------------------------------------------------------------------------ queues

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""
        raise self._absent("queue_push")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue; waits for one, or raises QueueEmptyError if `block` is False."""
        raise self._absent("queue_pop")

    def queue_len(self, key: str) -> int:
        """How many values a queue has."""
        raise self._absent("queue_len")

    # ------------------------------------------------------------------------------------------------------------ groups

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` callers have come to the barrier of this name."""
        if self.add(f"{key}/arrived", 1) >= world_size:
            self.set(f"{key}/open", b"")
        self.wait([f"{key}/open"], timeout)

    def clone(self) -> Store:
        """Another way to the same table, which a thread of its own may use."""
        raise self._absent("clone")
