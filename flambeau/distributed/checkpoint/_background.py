"""Where `async_save` saves: a thread of each rank, or a process beside each, which make a world of their own.

One save runs after the other, as ranks have to agree on the order of their messages. Used by `state_dict_saver`.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import socket
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.checkpoint._together import Together
from flambeau.distributed.checkpoint._writing import write_together

__all__ = ["group", "in_process", "start_process", "submit"]

_lock = threading.Lock()
_worker: ThreadPoolExecutor | None = None
_group: tuple[Any, Any] | None = None  # the default group with which it was made, and the group
_process: _Saver | None = None
_SECONDS_TO_START = 300.0
_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_OF_A_LAUNCHER = ("TORCHELASTIC_USE_AGENT_STORE", "PMI_FD", "PMI_RANK", "PMI_SIZE")


def _forget() -> None:
    """In the child of a fork, where neither the thread nor the group nor the process is."""
    global _worker, _group, _process
    _worker = _group = _process = None


os.register_at_fork(after_in_child=_forget)


def submit(run: Callable[[], Any]) -> Future[Any]:
    """A future of what `run` returns, in the thread."""
    global _worker
    with _lock:
        if _worker is None:
            _worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        return _worker.submit(run)


def group(given: Any, no_dist: bool) -> Any:
    """The given group, or one for saves only, which all ranks make together."""
    global _group
    if given is not None or no_dist or not c10d.is_initialized():
        return given
    with _lock:
        if _group is None or _group[0] is not c10d.GroupMember.WORLD:
            made = c10d.new_group(list(range(c10d.get_world_size())), group_desc="checkpoint")
            _group = c10d.GroupMember.WORLD, made
    return _group[1]


# In a process


def _serve(connection: Any, variables: dict[str, str | None]) -> None:
    """The process: begins its world, then saves what it is sent until the connection ends."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    try:
        if variables["WORLD_SIZE"] is not None:
            c10d.init_process_group("gloo")
        connection.send((True, None))
        while True:
            state_dict, writer, options = connection.recv()
            try:
                connection.send((True, write_together(state_dict, writer, together=Together(), **options)))
            except BaseException as error:
                connection.send((False, (error, traceback.format_exc())))
    except EOFError:
        pass  # the rank has ended, or closed the connection
    finally:
        if c10d.is_initialized():
            c10d.destroy_process_group()


class _Saver:
    """A process beside this rank's."""

    def __init__(self, variables: dict[str, str | None]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, variables), daemon=True, name="checkpoint")
        self.process.start()
        other.close()
        self.started, self.world = False, c10d.GroupMember.WORLD
        atexit.register(self.close)

    def _answer(self) -> Any:
        try:
            good, value = self.connection.recv()
        except (EOFError, OSError) as error:
            self.process.join(5)
            raise RuntimeError(
                f"the process that saves checkpoints ended with exit code {self.process.exitcode} before it answered"
            ) from error
        if good:
            return value
        error, trace = value
        error.add_note(f"in the process that saves checkpoints:\n{trace}")
        raise error

    def save(self, state_dict: Any, writer: Any, options: dict[str, Any]) -> Any:
        """What `write_together` returns, or raises, there."""
        if not self.started:
            if not self.connection.poll(_SECONDS_TO_START):
                raise RuntimeError(f"the process that saves checkpoints didn't start in {_SECONDS_TO_START} s")
            self._answer()
            self.started = True
        self.connection.send((state_dict, writer, options))
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self.connection.close()
        self.process.join(10)
        if self.process.is_alive():
            self.process.terminate()


def _free_port() -> int:
    with socket.create_server(("", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _variables(together: Together) -> dict[str, str | None]:
    """The environment of the process: a world of the same ranks, which meet at the first one's machine."""
    nothing = dict.fromkeys((*_OF_A_LAUNCHER, *_RANKS))
    if together.alone:
        return nothing
    address = os.environ.get("MASTER_ADDR") or socket.gethostname()
    port = together.all_reduce("address", _free_port, lambda ports: ports[0])
    ranks = (together.rank, together.count, os.environ.get("LOCAL_RANK", together.rank), address, port)
    return {**nothing, **dict(zip(_RANKS, map(str, ranks), strict=True))}


def start_process(together: Together) -> None:
    """Starts the process unless it runs; all ranks call it. NotImplementedError for a group of some of the ranks."""
    global _process
    if not together.alone and together.count != c10d.get_world_size():
        raise NotImplementedError("AsyncCheckpointerType.PROCESS with a group of some of the ranks: use THREAD")
    with _lock:
        if _process is None or not _process.process.is_alive() or _process.world is not c10d.GroupMember.WORLD:
            _process = _Saver(_variables(together))


def in_process(together: Together, state_dict: Any, writer: Any, **options: Any) -> Any:
    """What a save in the process gives. RuntimeError if the process has died."""
    saver = _process
    if saver is None:
        raise RuntimeError("the process that saves checkpoints isn't there: call async_save in the process that trains")
    return saver.save(state_dict, writer, options)
