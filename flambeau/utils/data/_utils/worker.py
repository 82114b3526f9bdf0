"""A worker process of a DataLoader: takes lists of keys, sends batches.

Stands on fetch and transport. A thread reads the requests, so that the program never waits to hand one over while the worker
waits to hand over a batch.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import sys
import threading
from typing import Any

import numpy as np

import flambeau
from flambeau.base.failures import ExceptionWrapper
from flambeau.utils.data import graph_settings, transport
from flambeau.utils.data._utils.fetch import _DatasetKind

#: Seconds between looks at whether the program still lives.
PATIENCE = 5.0


class WorkerInfo:
    """What get_worker_info() says in a worker: id, num_workers, seed and this worker's copy of the dataset."""

    def __init__(
        self, id: int, num_workers: int, seed: int, dataset: Any, rng: Any = None, worker_method: str | None = "multiprocessing"
    ):
        self.__dict__.update(id=id, num_workers=num_workers, seed=seed, dataset=dataset, rng=rng, worker_method=worker_method)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a DataLoader, what it is; None in any other process."""
    return _worker_info


class _IterableDatasetStopIteration:
    """What a worker of another library's loader sends at the end of its dataset."""

    def __init__(self, worker_id: int) -> None:
        self.worker_id = worker_id


class _ResumeIteration:
    """What a kept worker of another library's loader is sent, and answers, at a new epoch."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed


class ManagerWatchdog:
    """Says in a worker whether the program that started it still lives."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()

    def is_alive(self) -> bool:
        return os.getppid() == self.manager_pid


class Stop:
    """Sent in place of a batch when an iterable dataset has ended in a worker."""


class Ready:
    """Sent when a kept worker has begun a new epoch."""


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The seed that NumPy's global generator gets in a worker: four words that depend on both arguments."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4).tolist()


def run(
    worker: int, workers: int, base_seed: int, dataset: Any, settings: dict[str, Any], connection: Any, inherited: list[Any]
) -> None:
    """The life of a worker. `inherited`: connections of other workers that a fork has left open here."""
    for other in inherited:
        other.close()
    # When the program was interrupted or is gone it says so itself.
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        work(worker, workers, base_seed, dataset, settings, connection)
    sys.stdout.flush()
    sys.stderr.flush()


def work(worker: int, workers: int, base_seed: int, dataset: Any, settings: dict[str, Any], connection: Any) -> None:
    """Answer requests until None comes or the program is gone."""
    global _worker_info
    parent = os.getppid()
    seed = base_seed + worker
    flambeau.set_num_threads(1)
    random.seed(seed)
    flambeau.manual_seed(seed)
    np.random.seed(_generate_state(base_seed, worker))
    _worker_info = WorkerInfo(worker, workers, seed, dataset)
    where = f"in DataLoader worker process {worker}"
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=read_requests, args=(connection, requests), daemon=True).start()

    def begin() -> Any:
        return _DatasetKind.create_fetcher(
            settings["kind"], dataset, settings["batched"], settings["collate_fn"], settings["drop_last"]
        ).fetch

    fetch = failure = None
    try:
        if settings["worker_init_fn"] is not None:
            settings["worker_init_fn"](worker)
        fetch = begin()
    except Exception:
        failure = ExceptionWrapper(where=where)
    while True:
        try:
            request = requests.get(timeout=PATIENCE)
        except queue.Empty:
            if os.getppid() != parent:
                return
            continue
        if request is None:
            return
        task, keys = request
        try:
            if failure is not None:
                answer, failure = failure, None
            elif task is Ready:
                if keys is not None:  # the seed of the pass, where the dataset is made of pipes
                    graph_settings.begin_epoch(dataset, keys)
                answer, fetch = Ready, begin()
            else:
                answer = fetch(keys)
        except Exception as error:
            if isinstance(error, StopIteration) and settings["kind"] == _DatasetKind.Iterable:
                answer, fetch = Stop, ended  # some iterators go on when they are asked again
            else:
                answer = ExceptionWrapper(where=where)
        try:
            transport.send(connection, (task, answer))
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception:  # the batch, or the exception, can't be pickled
            try:
                transport.send(connection, (task, ExceptionWrapper(where=where)))
            except (TypeError, AttributeError, ImportError, ValueError) as second:
                transport.send(connection, (task, ExceptionWrapper((RuntimeError, RuntimeError(str(second)), None), where)))
        del answer


def ended(keys: Any) -> Any:
    """What a worker's dataset answers after its end."""
    raise StopIteration


def read_requests(connection: Any, requests: queue.SimpleQueue[Any]) -> None:
    """Move requests from the socket to the queue; None at its end."""
    try:
        while True:
            request = connection.recv()
            requests.put(request)
            if request is None:
                return
    except (EOFError, OSError):
        requests.put(None)
