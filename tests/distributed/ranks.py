"""Functions run by several processes at once, each a rank of a world; and what they leave behind, which is nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import flambeau.distributed as dist

needs_mpi = pytest.mark.skipif(not dist.is_available(), reason="needs flambeau[dist]")
HANG = 300.0  # seconds after which something doesn't end: a loaded machine takes its time
ENVIRONMENT = "RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_USE_AGENT_STORE TORCH_DISTRIBUTED_DEBUG".split()


def free_port() -> int:
    with socket.create_server(("", 0)) as probe:
        return probe.getsockname()[1]


def shared_memory() -> set[str]:
    """What MPI has left on this machine: names of shared memory that no process has, and goes on having none.

    Other tests' worlds begin and end beside this one: between a file's making and its mapping nobody has it either.
    """
    names = _unmapped()
    for _ in range(10):
        if not names:
            break
        time.sleep(0.1)
        names &= _unmapped()
    return names


def _unmapped() -> set[str]:
    names = {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(("mpich", "ucx", "psm"))}
    for process in Path("/proc").glob("[0-9]*/maps") if names else ():
        try:
            mapped = process.read_text()
        except OSError:
            continue
        names = {name for name in names if name not in mapped}
    return names


class Ended(Exception):
    """A process ended without an answer."""


def _run(
    rank: int,
    size: int,
    port: int,
    variables: dict[str, str],
    seconds: float,
    begin: bool,
    body: Callable[..., Any],
    arguments: tuple[Any, ...],
    answer: Any,
) -> None:
    for name in ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **variables
    )
    try:
        if begin:
            dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
        answer.send((True, body(rank, *arguments)))
    except Exception as error:
        answer.send((False, (type(error), str(error), traceback.format_exc())))
        raise SystemExit(1) from None


def start(
    size: int,
    body: Callable[..., Any],
    *arguments: Any,
    seconds: float = HANG,
    begin: bool = True,
    variables: dict[str, str] | None = None,
) -> tuple[list[Any], list[Any]]:
    """The processes, and where each answers with (True, result) or (False, (type, message, traceback))."""
    context, port = multiprocessing.get_context("fork"), free_port()
    processes, answers = [], []
    for rank in range(size):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(rank, size, port, variables or {}, seconds, begin, body, arguments, sender))
        process.start()
        sender.close()
        processes.append(process)
        answers.append(receiver)
    return processes, answers


def outcomes(processes: list[Any], answers: list[Any], seconds: float = HANG) -> list[Any]:
    """What each process answered, after all have ended; None for one that ended without an answer."""
    end = time.monotonic() + seconds
    found = []
    try:
        for answer in answers:
            try:
                assert answer.poll(max(end - time.monotonic(), 0)), "no answer in time"
                found.append(answer.recv())
            except EOFError:
                found.append(None)
        for process in processes:
            process.join(max(end - time.monotonic(), 0.1))
            assert process.exitcode is not None, "a process does not end"
    finally:
        for process in processes:
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                process.join()
    return found


def on_ranks(
    size: int,
    body: Callable[..., Any],
    *arguments: Any,
    seconds: float = HANG,
    begin: bool = True,
    variables: dict[str, str] | None = None,
) -> list[Any]:
    """body(rank, *arguments) of each rank, in one default group. Raises what the first rank raised; nothing is left behind."""
    before = shared_memory()
    found = outcomes(*start(size, body, *arguments, seconds=seconds, begin=begin, variables=variables))
    for rank, outcome in enumerate(found):
        if outcome is None:
            raise Ended(f"rank {rank}")
        good, value = outcome
        assert good, f"rank {rank}:\n{value[2]}"
    assert shared_memory() <= before
    return [value for _, value in found]
