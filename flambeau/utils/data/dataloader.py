"""The DataLoader: batches of a dataset, in this process or from worker processes.

Stands on samplers, collate and the iterators. Checks its arguments as PyTorch does.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from flambeau.base.tracebacks import filter_traceback
from flambeau.utils.data import _utils as _utils
from flambeau.utils.data._utils.collate import default_collate, default_convert
from flambeau.utils.data._utils.fetch import _DatasetKind
from flambeau.utils.data._utils.worker import get_worker_info
from flambeau.utils.data.datapipes.datapipe import IterDataPipe
from flambeau.utils.data.dataset import Dataset, IterableDataset
from flambeau.utils.data.graph_settings import apply_shuffle_settings
from flambeau.utils.data.iterators import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _sharding_worker_init_fn,
    _SingleProcessDataLoaderIter,
)
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

Item = TypeVar("Item", covariant=True)

_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[Any]], Any]

__all__ = ["DataLoader", "_sharding_worker_init_fn", "default_collate", "default_convert", "get_worker_info"]


class _InfiniteConstantSampler(Sampler[None]):
    """The keys of an iterable dataset: None for ever."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    """ValueError for options of workers that don't go together."""
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_order(
    iterable: bool, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """ValueError for orders and batches that don't go together, or don't go with an iterable dataset."""
    if iterable:
        for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None and (name != "shuffle" or value is not False):
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}")
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


class DataLoader(Generic[Item]):
    """Iterates over a dataset in batches.

    dataset: a Dataset, or anything with `__getitem__` and `__len__`, or an IterableDataset. batch_size: items per batch; None
    gives single items. shuffle: a new random order in each epoch. sampler, batch_sampler: orders of your own instead.
    num_workers: processes that read ahead; 0 reads in this one. collate_fn: makes a batch of a list of items.
    drop_last: leave out a short last batch. timeout: seconds to wait for a worker. worker_init_fn: called in each worker with
    its number. multiprocessing_context: how workers are started. generator: of the shuffle and the workers' seeds.
    prefetch_factor: batches that each worker keeps ready (2). persistent_workers: keep the workers between epochs.
    in_order: False gives batches as they become ready. pin_memory has no effect without an accelerator.

    Raises ValueError and TypeError for arguments that don't go together. An exception in a worker is raised here, with the
    worker's traceback; the death of one is a RuntimeError.
    """

    dataset: Dataset[Item]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    _initialised = False

    def __init__(
        self,
        dataset: Dataset[Item],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: _collate_fn_t | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        try:
            _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
            self.dataset = dataset
            self.num_workers = num_workers
            self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
            self.pin_memory = pin_memory
            self.pin_memory_device = pin_memory_device
            self.timeout = timeout
            self.worker_init_fn = worker_init_fn
            self.multiprocessing_context = multiprocessing_context
            self.in_order = in_order
            iterable = isinstance(dataset, IterableDataset)
            if isinstance(dataset, IterDataPipe) and shuffle is not None:
                apply_shuffle_settings(dataset, shuffle)
                shuffle = False
            self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
            _check_order(iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
            if batch_sampler is not None:
                batch_size, drop_last = None, False
            if sampler is None:
                if iterable:
                    sampler = _InfiniteConstantSampler()
                elif shuffle:
                    sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
                else:
                    sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
            if batch_size is not None and batch_sampler is None:
                batch_sampler = BatchSampler(sampler, batch_size, drop_last)
            self.batch_size = batch_size
            self.drop_last = drop_last
            self.sampler = sampler
            self.batch_sampler = batch_sampler
            self.generator = generator
            self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
            self.persistent_workers = persistent_workers
            self._IterableDataset_len_called: int | None = None
            self._iterator = None
            self.check_worker_number_rationality()
            self._initialised = True
        except Exception as error:
            filter_traceback(error)
            raise

    # ---- arguments

    @property
    def multiprocessing_context(self) -> Any:
        """The way worker processes are started; None means the platform's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                valid = multiprocessing.get_all_start_methods()
                if context not in valid:
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method in {valid!r}, but got "
                        f"multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string specifying the start "
                    f"method, but got multiprocessing_context={context}"
                )
        self._context = context

    def __setattr__(self, name: str, value: Any) -> None:
        fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
        if self._initialised and name in fixed:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What gives the keys: of a batch each, or of an item."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than this process may use processors."""
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if available is not None and self.num_workers > available:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number of "
                f"worker in current system is {available}, which is smaller than what this DataLoader is going to create. "
                "Please be aware that excessive worker creation might get DataLoader running slow or even freeze, lower the "
                "worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )

    # ---- iteration

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        kept = self._iterator  # perhaps one that a subclass has wrapped
        if kept is not None and not getattr(kept, "closed", False):
            kept._reset(self)
        else:
            self._iterator = self._get_iterator()
        return self._iterator  # type: ignore[return-value]

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
                stacklevel=3,
            )
        return _SingleProcessDataLoaderIter(self) if self.num_workers == 0 else _MultiProcessingDataLoaderIter(self)

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)
        return length
