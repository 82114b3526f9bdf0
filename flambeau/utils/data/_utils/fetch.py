"""Takes the items of one batch out of a dataset and collates them: one way for keyed datasets, one for iterable ones.

Stands on nothing but the dataset; runs in the program's process or in a worker. Other libraries' loaders use it by these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["_BaseDatasetFetcher", "_DatasetKind", "_IterableDatasetFetcher", "_MapDatasetFetcher"]


class _BaseDatasetFetcher:
    """`fetch`: key, or keys if auto_collation, -> batch. StopIteration at the end of an iterable dataset."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, possibly_batched_index: Any) -> Any:
        dataset = self.dataset
        if not self.auto_collation:
            return self.collate_fn(dataset[possibly_batched_index])
        if callable(getattr(dataset, "__getitems__", None)):
            return self.collate_fn(dataset.__getitems__(possibly_batched_index))
        return self.collate_fn([dataset[key] for key in possibly_batched_index])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Only the number of keys counts: the next items come, whatever the keys are."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        batch = []
        for _ in possibly_batched_index:  # by `next` alone: to ask an iterator for its iterator may begin it again
            try:
                batch.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.ended and self.drop_last):
            raise StopIteration
        return self.collate_fn(batch)


class _DatasetKind:
    """How a dataset is read: by key or in its own order."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> _BaseDatasetFetcher:
        """What reads a dataset of that kind."""
        made = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)
