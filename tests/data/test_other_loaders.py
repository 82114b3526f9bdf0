"""What loaders of other libraries stand on: iterators over a loader of their own, readers of datasets, watched workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import flambeau as torch
from flambeau.utils.data import DataLoader, IterableDataset, _DatasetKind, _utils
from flambeau.utils.data.dataloader import _collate_fn_t, _SingleProcessDataLoaderIter, _worker_init_fn_t


class Counting:
    """A loader that is its own dataset and iterates, though it is no IterableDataset."""

    _IterableDataset_len_called, _auto_collation, drop_last, num_workers, timeout = None, False, False, 0, 0
    _dataset_kind, generator, pin_memory, collate_fn = _DatasetKind.Iterable, None, False, staticmethod(lambda x: x)
    persistent_workers = False

    def __init__(self):
        self.dataset, self._index_sampler = self, range(10)

    def __iter__(self):
        return iter([torch.tensor(1), torch.tensor(2)])


def test_a_loader_says_how_its_dataset_is_read() -> None:
    assert [int(x) for x in _SingleProcessDataLoaderIter(Counting())] == [1, 2]
    made = iter(DataLoader([1, 2, 3], batch_size=2))
    assert (made._next_index(), made._dataset, made._num_workers, made._timeout) == ([0, 1], [1, 2, 3], 0, 0)
    assert _collate_fn_t is not None and _worker_init_fn_t is not None


@pytest.mark.parametrize("workers", [0, 1])
def test_a_subclass_may_change_the_kind(workers: int) -> None:
    class Own(DataLoader):
        def __init__(self):
            super().__init__([3, 4, 5], batch_size=2, num_workers=workers)
            self._dataset_kind = _DatasetKind.Iterable

        def __len__(self):
            return 2

    assert [batch.tolist() for batch in Own()] == [[3, 4], [5]]


def test_readers_of_datasets() -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    read = _DatasetKind.create_fetcher(_DatasetKind.Iterable, Stream(), True, list, False)
    assert read.fetch([0, 0]) == [0, 1] and not read.ended and read.fetch([0, 0]) == [2] and read.ended
    with pytest.raises(StopIteration):
        read.fetch([0])
    read = _utils.fetch._MapDatasetFetcher([5, 6, 7], False, lambda x: x, False)
    assert read.fetch(2) == 7 and read.dataset == [5, 6, 7]
    assert _utils.worker._generate_state(123456789012345, 3) == [3999280408, 2418223825, 1775828080, 3641838301]
    assert _utils.collate.np_str_obj_array_pattern.search("<U3") and _utils.pin_memory.pin_memory("x") == "x"


def test_a_worker_that_is_told_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_utils.worker, "_worker_info", _utils.worker.WorkerInfo(id=1, num_workers=2, seed=3, dataset=[]))
    assert torch.utils.data.get_worker_info().id == 1


def test_the_death_of_a_worker_is_seen() -> None:
    killed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    fine = subprocess.Popen([sys.executable, "-c", ""])
    watch = _utils.signal_handling
    os.waitid(os.P_PID, fine.pid, os.WEXITED | os.WNOWAIT)
    watch._set_worker_pids(7, (killed.pid, fine.pid))
    try:
        watch._error_if_any_worker_fails()
        killed.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid {killed.pid}\) is killed by signal: Killed"):
            watch._error_if_any_worker_fails()
        watch._error_if_any_worker_fails()
        with pytest.raises(ValueError, match="should be called only once"):
            watch._set_worker_pids(7, ())
    finally:
        watch._remove_worker_pids(7)
        killed.wait()
        fine.wait()
