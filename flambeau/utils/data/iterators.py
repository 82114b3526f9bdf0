"""The iterators of a DataLoader: in this process, and over worker processes.

Stands on fetch, worker and transport. A new iterator draws one seed from the loader's generator when it is made, as
PyTorch does; the order of a shuffle is drawn after it.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from multiprocessing import connection as connections
from typing import Any

from flambeau.base.failures import ExceptionWrapper
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.modes.observing import stretch
from flambeau.utils.data import transport
from flambeau.utils.data._utils import worker as workers
from flambeau.utils.data._utils.fetch import _DatasetKind
from flambeau.utils.data.datapipes.datapipe import IterDataPipe
from flambeau.utils.data.graph_settings import apply_sharding, begin_epoch
from flambeau.utils.data.sampler import draw_seed

#: Seconds that a worker gets to end by itself before it is ended.
GRACE = 5.0


def _sharding_worker_init_fn(worker_init_fn: Any, world_size: int, rank_id: int, worker_id: int) -> None:
    """What a worker of a pipe of data sets begins with: its share of the items of all processes' workers."""
    info = workers.get_worker_info()
    assert info is not None
    apply_sharding(info.dataset, info.num_workers * world_size, worker_id * world_size + rank_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _BaseDataLoaderIter:
    """One pass over a loader's batches."""

    def __init__(self, loader: Any):
        self.loader = loader
        self.describe(loader)
        self._share_seed()
        self._base_seed = draw_seed(loader.generator)
        self.begin()

    def describe(self, loader: Any) -> None:
        """Keep what iterators of other libraries, which are made of this one, ask themselves for."""
        self._dataset, self._dataset_kind, self._index_sampler = loader.dataset, loader._dataset_kind, loader._index_sampler
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation, self._collate_fn, self._drop_last = loader._auto_collation, loader.collate_fn, loader.drop_last
        self._num_workers, self._timeout, self._pin_memory = loader.num_workers, loader.timeout, False
        self._persistent_workers = loader.persistent_workers
        self._pin_memory_device = None
        self._rank, self._world_size = 0, 1

    def _share_seed(self) -> None:
        """Seed the pipes that a dataset is made of for this pass."""
        self._shared_seed = None
        if isinstance(self._dataset, IterDataPipe):
            distributed = sys.modules.get("flambeau.distributed")
            if distributed is not None and distributed.is_initialized() and distributed.get_world_size() > 1:
                raise NotImplementedError(
                    "a DataLoader of an IterDataPipe in several processes is not implemented in flambeau: "
                    "give it a Dataset and a DistributedSampler"
                )
            self._shared_seed = draw_seed(self.loader.generator)
            begin_epoch(self._dataset, self._shared_seed)

    def _next_index(self) -> Any:
        """The next key, or keys. Raises StopIteration."""
        return next(self._sampler_iter)

    def begin(self) -> None:
        """Start the order of keys from its beginning."""
        self._sampler_iter: Iterator[Any] = iter(self.loader._index_sampler)
        self._num_yielded = 0

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """A new pass; the seed stays."""
        self._share_seed()
        self.begin()

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __len__(self) -> int:
        return len(self.loader._index_sampler)

    def _next_data(self) -> Any:
        """The next batch. Raises StopIteration."""
        raise NotImplementedError

    def __next__(self) -> Any:
        try:
            with stretch(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
                return self._next()
        except Exception as error:
            filter_traceback(error)
            raise

    def _next(self) -> Any:
        batch = self._next_data()
        self._num_yielded += 1
        loader = self.loader
        promised = loader._IterableDataset_len_called
        if promised is not None and loader._dataset_kind == _DatasetKind.Iterable and self._num_yielded > promised:
            message = (
                f"Length of IterableDataset {loader.dataset} was reported to be {promised}(when accessing "
                f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
            )
            if loader.num_workers > 0:
                message += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
                    "replica at each worker. Please see "
                    "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
                )
            warnings.warn(message, stacklevel=3)
        return batch


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches made in this process when they are asked for."""

    def begin(self) -> None:
        super().begin()
        loader = self.loader
        if loader.timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self.fetch = _DatasetKind.create_fetcher(
            loader._dataset_kind, loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last
        ).fetch

    def _next_data(self) -> Any:
        return self.fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches made ahead by worker processes, and given out in order (unless the loader's in_order is off).

    Batch i is the work of the i-th of the workers that still have data, in turn; each has up to prefetch_factor requests.
    """

    def __init__(self, loader: Any):
        self.closed = False
        self._workers: list[Any] = []
        self.sockets: list[Any] = []
        super().__init__(loader)
        context = loader.multiprocessing_context or multiprocessing.get_context()
        settings = {
            "kind": loader._dataset_kind,
            "batched": loader._auto_collation,
            "collate_fn": loader.collate_fn,
            "drop_last": loader.drop_last,
            "worker_init_fn": self._worker_init_fn(loader),
        }
        forks = (getattr(context, "get_start_method", lambda: None)() or "fork") == "fork"
        for number in range(loader.num_workers):
            ours, theirs = context.Pipe(duplex=True)
            inherited = [*self.sockets, ours] if forks else []
            arguments = (number, loader.num_workers, self._base_seed, loader.dataset, settings, theirs, inherited)
            process = context.Process(target=workers.run, args=arguments, daemon=True)
            self.sockets.append(ours)
            process.start()
            theirs.close()
            self._workers.append(process)
        self.fill()

    def _worker_init_fn(self, loader: Any) -> Any:
        """What workers begin with; those of a pipe divide its items, also with the workers of other processes."""
        if not isinstance(loader.dataset, IterDataPipe):
            return loader.worker_init_fn
        return functools.partial(_sharding_worker_init_fn, loader.worker_init_fn, self._world_size, self._rank)

    def begin(self) -> None:
        super().begin()
        self.sent = self.wanted = 0
        self.exhausted = False
        self.turn = 0
        self.active = [True] * self.loader.num_workers
        self.outstanding = [0] * self.loader.num_workers
        #: task -> number of the worker that has it
        self.tasks: dict[int, int] = {}
        self.arrived: dict[int, Any] = {}

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """A new pass with the same workers, which keep their seeds: what is under way of the last one is dropped."""
        while self.tasks:
            task, _ = self.take()
            self.finish(task)
        self._share_seed()
        self.begin()
        for socket in self.sockets:
            socket.send((workers.Ready, self._shared_seed))
        waiting = self.loader.num_workers
        while waiting:
            task, answer = self.take()
            if isinstance(answer, ExceptionWrapper):
                self._shutdown_workers()
                answer.reraise()
            waiting -= task is workers.Ready
        self.fill()

    # ---- requests

    def fill(self) -> None:
        """Hand out requests until every worker has as many as it may."""
        for _ in range(self.loader.prefetch_factor * self.loader.num_workers):
            self.request()

    def request(self) -> None:
        """Hand the next keys to the worker whose turn it is."""
        if self.exhausted or sum(self.outstanding) >= self.loader.prefetch_factor * sum(self.active):
            return
        try:
            keys = next(self._sampler_iter)
        except StopIteration:
            self.exhausted = True
            return
        count = self.loader.num_workers
        for step in range(count):
            number = (self.turn + step) % count
            if self.active[number]:
                if self.loader.in_order or self.outstanding[number] < self.loader.prefetch_factor:
                    break
        else:
            return
        self.turn = (number + 1) % count
        try:
            self.sockets[number].send((self.sent, keys))
        except (BrokenPipeError, ConnectionResetError):
            self.check_workers()
            raise
        self.tasks[self.sent] = number
        self.outstanding[number] += 1
        self.sent += 1

    def finish(self, task: Any) -> None:
        """A task has been answered."""
        number = self.tasks.pop(task)
        self.outstanding[number] -= 1

    # ---- answers

    def _next_data(self) -> Any:
        while True:
            if self.loader.in_order:
                # Tasks of workers that ended meanwhile have no answer to wait for.
                while self.wanted < self.sent and self.wanted not in self.tasks and self.wanted not in self.arrived:
                    self.wanted += 1
                if self.wanted in self.arrived:
                    return self.give(self.wanted)
            elif self.arrived:
                return self.give(next(iter(self.arrived)))
            if not self.tasks:
                if not self.loader.persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            task, answer = self.take()
            number = self.tasks[task]
            self.finish(task)
            if answer is workers.Stop:
                self.active[number] = False
                self.request()
            else:
                self.arrived[task] = answer

    def give(self, task: int) -> Any:
        """Hand out an answer that has come, and ask for one more. What a worker raised is raised here, and the next call goes on
        with the next batch.
        """
        batch = self.arrived.pop(task)
        self.wanted += task == self.wanted
        self.request()
        if isinstance(batch, ExceptionWrapper):
            batch.reraise()
        return batch

    def take(self) -> tuple[Any, Any]:
        """The next answer of any worker. Raises RuntimeError if one has died, or after the loader's timeout."""
        timeout = self.loader.timeout
        deadline = time.monotonic() + timeout if timeout > 0 else None
        while True:
            left = workers.PATIENCE if deadline is None else deadline - time.monotonic()
            if left <= 0:
                self._shutdown_workers(at_once=True)
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
            sentinels = [process.sentinel for process in self._workers]
            ready = connections.wait([*self.sockets, *sentinels], left)
            for socket in self.sockets:
                if socket in ready:
                    try:
                        return transport.receive(socket)
                    except (EOFError, ConnectionResetError, OSError):
                        self.check_workers()
                        raise
            if ready:
                self.check_workers()

    def check_workers(self) -> None:
        """Raise RuntimeError, in PyTorch's words, if a worker has died."""
        for process in self._workers:
            process.join(0.05)
        dead = [process for process in self._workers if process.exitcode is not None]
        if not dead:
            return
        first = dead[0]
        pids = ", ".join(str(process.pid) for process in dead)
        if first.exitcode < 0:
            name = signal.strsignal(-first.exitcode) or f"Unknown signal {-first.exitcode}"
            cause = f"DataLoader worker (pid {first.pid}) is killed by signal: {name}. "
        else:
            cause = (
                f"DataLoader worker (pid {first.pid}) exited unexpectedly with exit code {first.exitcode}. Details are lost "
                "due to multiprocessing. Rerunning with num_workers=0 may give better error trace."
            )
        self._shutdown_workers(at_once=True)
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly") from RuntimeError(cause)

    # ---- the end

    def _shutdown_workers(self, at_once: bool = False) -> None:
        """End the workers and wait for them."""
        if self.closed:
            return
        self.closed = True
        for socket in self.sockets:
            if not at_once:
                with contextlib.suppress(OSError):
                    socket.send(None)
            socket.close()
        deadline = time.monotonic() + GRACE
        for process in self._workers:
            if not at_once:
                process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode is None:
                process.terminate()
                process.join(GRACE)
            if process.exitcode is None:
                process.kill()
                process.join()
        self.tasks, self.arrived = {}, {}
        self.exhausted = True

    def __del__(self) -> None:
        # In a forked child the processes are the parent's to end.
        if self._workers and self._workers[0]._parent_pid == os.getpid():
            self._shutdown_workers(at_once=True)
