"""Takes the items of one batch out of a dataset and collates them: one way for keyed datasets, one for iterable ones.

Stands on nothing but the dataset; runs in the program's process or in a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.utils.data.dataset import IterableDataset


def fetcher(dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> Callable[[Any], Any]:
    """The function key or keys -> batch. Raises StopIteration at the end of an iterable dataset."""
    if isinstance(dataset, IterableDataset):
        return iterable_fetcher(dataset, batched, collate, drop_last)

    def fetch(keys: Any) -> Any:
        if not batched:
            return collate(dataset[keys])
        if callable(getattr(dataset, "__getitems__", None)):
            return collate(dataset.__getitems__(keys))
        return collate([dataset[key] for key in keys])

    return fetch


def iterable_fetcher(
    dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool
) -> Callable[[Any], Any]:
    """The same where only the number of keys counts: the next items come, whatever the keys are."""
    items = iter(dataset)
    ended = False

    def fetch(keys: Any) -> Any:
        nonlocal ended
        if ended:
            raise StopIteration
        if not batched:
            return collate(next(items))
        batch = []
        for _ in keys:      # by `next` alone: to ask an iterator for its iterator may begin it again
            try:
                batch.append(next(items))
            except StopIteration:
                ended = True
                break
        if not batch or (ended and drop_last):
            raise StopIteration
        return collate(batch)

    return fetch
