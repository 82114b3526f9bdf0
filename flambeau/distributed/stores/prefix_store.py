"""A store below a prefix: the keys of another store that begin so. Stands on store; groups keep theirs apart by it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from flambeau.base.naming import called
from flambeau.distributed.stores.store import Store, encoded, key_of


@called("distributed.distributed_c10d", "PrefixStore")
class PrefixStore(Store):
    """The keys of another store that begin with `prefix/`. Raises ValueError if there is no other store."""

    def __init__(self, prefix: str, store: Store) -> None:
        if store is None:
            raise ValueError("store argument cannot be None")
        if not isinstance(store, Store):
            raise TypeError(f"__init__(): incompatible constructor arguments. A store is needed, not {type(store).__name__}.")
        self._prefix, self._store = key_of(prefix, "PrefixStore"), store

    def _inner(self, key: str, function: str) -> str:
        return f"{self._prefix}/{key_of(key, function)}"

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

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._inner(key, "set"), encoded(value, "set"))

    def get(self, key: str) -> bytes:
        return self._store.get(self._inner(key, "get"))

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._inner(key, "add"), amount)

    def append(self, key: str, value: str | bytes) -> None:
        inner, more = self._inner(key, "append"), encoded(value, "append")
        if self._store.has_extended_api():
            self._store.append(inner, more)
            return
        present = self._store.compare_set(inner, b"", b"")
        while (found := self._store.compare_set(inner, present, present + more)) != present + more:
            present = found  # another's came between

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self._store.compare_set(
            self._inner(key, "compare_set"), encoded(expected_value, "compare_set"), encoded(desired_value, "compare_set")
        )

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._inner(key, "delete_key"))

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check([self._inner(key, "check") for key in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._store.wait([self._inner(key, "wait") for key in keys], *(() if timeout is None else (timeout,)))

    def num_keys(self) -> int:
        """How many keys the store that keeps the values has."""
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        inside = self._inner("", "list_keys")
        return [key[len(inside) :] for key in self._store.list_keys() if key.startswith(inside)]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        inner, given = [self._inner(key, "multi_set") for key in keys], [encoded(value, "multi_set") for value in values]
        if self._store.has_extended_api():
            self._store.multi_set(inner, given)
        else:
            for key, value in zip(inner, given):
                self._store.set(key, value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        inner = [self._inner(key, "multi_get") for key in keys]
        return self._store.multi_get(inner) if self._store.has_extended_api() else [self._store.get(key) for key in inner]

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._store.queue_push(self._inner(key, "queue_push"), encoded(value, "queue_push"))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._inner(key, "queue_pop"), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._inner(key, "queue_len"))

    def clone(self) -> PrefixStore:
        """The same prefix of a clone of the store."""
        return PrefixStore(self._prefix, self._store.clone())
