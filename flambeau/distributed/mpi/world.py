"""A world: the processes of one init_process_group, from a store to a communicator, and who of them is gone.

MPI is initialized once in a process's life, by all of a world together, and ended when the process ends. A later world of the
same processes uses it again. Stands on the modules beside it; process groups make it.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from flambeau.distributed.errors import DistBackendError, DistStoreError, PeerError
from flambeau.distributed.mpi import ending, library
from flambeau.distributed.mpi.agreement import describe
from flambeau.distributed.mpi.channel import Channel
from flambeau.distributed.mpi.lifeline import Lifeline, Progress
from flambeau.distributed.mpi.local import LocalChannel
from flambeau.distributed.mpi.process_manager import ProcessManager
from flambeau.distributed.mpi.progress import Operation
from flambeau.distributed.mpi.waits import Wait, Waits
from flambeau.distributed.stores import PrefixStore, Store, TCPStore

_TAG = 0x4642  # of messages by which a communicator is made
_ON_ITS_WAY = 2.0  # seconds for which a message may travel whose sender has left
_WORD_COMES = 0.5  # seconds after which the lifelines have told of a process's end
_initialized = ""  # the name of the MPI world that this process is in


class World:
    """The processes of one init_process_group. rank, size: of this process, and how many there are.

    store: shared by exactly these processes. Raises DistStoreError or DistNetworkError, within `timeout`, that names the ranks
    that are missing or disagree.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        self.rank, self.size = rank, size
        self._store = store.clone()
        self._store.set_timeout(timeout)
        if size > 1:
            self._store = PrefixStore(f"world/{_generation(self._store, rank)}", self._store)
        self._calls: dict[str, list[Any]] = {}  # group -> [calls begun, the last one's description]
        self.lifeline: Lifeline | None = None
        self.waits = Waits(rank)
        self._mpi_ranks = [0]
        if size > 1:
            end = time.monotonic() + timeout.total_seconds()
            library.load()
            entries = _meet(self._store, rank, size, end)
            self.lifeline = Lifeline(self._store, rank, size, max(end - time.monotonic(), 1), self._progress, self.waits.report)
            ending.lifelines.add(self.lifeline)
            self._mpi_ranks = _initialize(self._store, entries, rank, size, end, lambda: self.look(range(size), "MPI_Init"))

    def channel(self, ranks: Sequence[int], timeout: timedelta) -> Channel | LocalChannel:
        """A channel of these ranks, which they all ask for at the same time."""
        if len(ranks) == 1:
            return LocalChannel()
        MPI = library.load()

        def make() -> Any:
            everyone = MPI.COMM_WORLD.Get_group()
            members = everyone.Incl([self._mpi_ranks[rank] for rank in ranks])
            try:
                made = MPI.COMM_WORLD.Create_group(members, _TAG)
                return made, made.Dup()
            finally:
                members.Free()
                everyone.Free()

        until = time.monotonic() + timeout.total_seconds()
        try:
            made = library.patiently(make, until, lambda: self.look(ranks, "making a group"))
        except TimeoutError:
            ending.broken.append(TimeoutError())
            raise DistBackendError(
                f"a group of {describe(list(ranks))} was not made within {timeout.total_seconds():g} s: one of them is missing"
            ) from None
        for each in made:
            each.Set_errhandler(MPI.ERRORS_RETURN)
        if len(ranks) == self.size:
            library.forget_names()  # all have come this far
        return Channel(made[0], made[1], ranks)

    # ------------------------------------------------------------------------------------------------ who is where

    def begun(self, group: str, call: object) -> int:
        """Note that this process begins a call in a group; which call of this group it is, from 1."""
        entry = self._calls.setdefault(group, [0, ""])
        entry[0] += 1
        entry[1] = call
        return entry[0]

    def calls_begun(self, group: str) -> int:
        """How many calls this process has begun in a group."""
        return self._calls.get(group, [0])[0]

    def _progress(self) -> Progress:
        return {group: (count, str(call)) for group, (count, call) in list(self._calls.items())}

    def look(
        self, ranks: Sequence[int], doing: str, group: str = "", number: int = 0, peers: Sequence[int] | None = None
    ) -> None:
        """Raise DistBackendError if one of these ranks died, or left without making call `number` of a group.

        number: 0 for what isn't counted; what a rank did of that before it left may be on its way for a while. peers: those that
        are waited for, of whom one is enough: they have all left.
        """
        line = self.lifeline
        if line is None or not (line.gone or line.left):
            return
        lost = [rank for rank in ranks if rank in line.gone]
        if lost:
            self._break(f"{doing}: {_how_lost({rank: line.gone[rank] for rank in lost}, line.consequences)}")
        now = time.monotonic()
        missing = [
            rank
            for rank in (ranks if peers is None else peers)
            if rank in line.left
            and (line.left[rank].get(group, (0, ""))[0] < number if number else now - line.left_at[rank] > _ON_ITS_WAY)
        ]
        if missing and (peers is None or len(missing) == len(peers)):
            made, last = line.left[missing[0]].get(group, (0, ""))
            self._break(
                f"{doing}: rank {missing[0]} has ended after {made} calls of this group" + (f", the last {last}" if made else "")
            )

    def look_for_a_while(self, ranks: Sequence[int], doing: str) -> None:
        """When MPI has failed, which may know first that a rank died: raise DistBackendError if it turns out that one did."""
        end = time.monotonic() + _WORD_COMES
        while time.monotonic() < end:
            self.look(ranks, doing)
            time.sleep(0.02)

    def look_at(self, wait: Wait) -> None:
        """Raise DistBackendError if what is waited for never comes, because ranks wait for each other."""
        if self.lifeline is not None:
            try:
                self.waits.check(wait, self.lifeline)
            except DistBackendError as error:
                self.broke(error)
                raise

    def explain_timeout(self, ranks: Sequence[int], group: str, number: int, call: str) -> str:
        """Who of these ranks has not made call `number` of a group yet, or made another, and what they did instead."""
        if self.lifeline is None:
            return ""
        everyone = self.lifeline.everyones_progress()
        behind = [
            f"rank {rank} has made {everyone[rank].get(group, (0, ''))[0]} calls"
            + (f", the last {everyone[rank][group][1]}" if group in everyone[rank] else "")
            for rank in ranks
            if rank in everyone and everyone[rank].get(group, (0, ""))[0] < number
        ]
        silent = [rank for rank in ranks if rank not in everyone]
        if silent:
            behind.append(f"{describe(silent)} {'does' if len(silent) == 1 else 'do'} not answer")
        for rank in ranks:
            made, last = everyone.get(rank, {}).get(group, (0, ""))
            if made == number and last != call:
                behind.append(f"rank {rank} called {last} instead")
        if behind:
            return "; ".join(behind)
        return "all ranks have made this call"

    def _break(self, why: str) -> None:
        error = PeerError(why)
        ending.broken.append(error)
        raise error

    def broke(self, error: BaseException) -> None:
        """Something is left under way that will never end."""
        ending.broken.append(error)

    def leave(self) -> None:
        """This process makes no more calls in this world."""
        if self.lifeline is not None:
            self.lifeline.leave()

    def watch(self, operation: Operation) -> None:
        """Have an operation driven on while nobody waits for it."""
        ending.background.add(operation)


def _how_lost(gone: dict[int, str], consequences: Collection[int] = ()) -> str:
    """Which ranks died, and why if one of them said so. consequences: those that did because others had."""
    gone = {rank: why for rank, why in gone.items() if rank not in consequences} or gone
    for rank, why in gone.items():
        if why:
            return f"rank {rank} is gone, it failed with {why}"
    who, whose = ("is gone: its process", "its") if len(gone) == 1 else ("are gone: their processes", "their")
    return f"{describe(list(gone))} {who} ended without a word (killed, out of memory, or {whose} machine was cut off)"


# ---------------------------------------------------------------------------------------------------- beginning


def _generation(store: Store, rank: int) -> int:
    """The how-manieth world this is that a process of this rank makes by the store. Raises DistStoreError if two processes say
    that they are this rank.
    """
    process = f"{socket.gethostname()} {os.getpid()}"
    number = store.add(f"world/worlds/{rank}", 1)
    if number == 1:
        store.set(f"world/process/{rank}", process)
    elif (other := store.get(f"world/process/{rank}").decode()) != process:
        raise DistStoreError(f"two processes say that they are rank {rank}: {other} and {process} (machine, process id)")
    return number


def _meet(store: Store, rank: int, size: int, end: float) -> list[list[str]]:
    """Wait for all ranks: of each the name of its MPI world ("-": none yet) and its number there."""
    number = library.load().COMM_WORLD.Get_rank() if _initialized else -1
    store.set(f"here/{rank}", f"{size} {_initialized or '-'} {number}")
    return [_entry(store, other, rank, size, end).split()[1:] for other in range(size)]


def _initialize(store: Store, entries: list[list[str]], rank: int, size: int, end: float, look: Callable[[], None]) -> list[int]:
    """Have MPI initialized; each rank's number in MPI's world. look: raises if another rank is gone."""
    names = {name for name, _ in entries}
    if names == {_initialized} and _initialized:
        return [int(number) for _, number in entries]
    if names != {"-"}:
        used = [r for r, (name, _) in enumerate(entries) if name != "-"]
        raise DistBackendError(
            f"MPI begins once in a process's life, and {describe(used)} had a world of other processes before: start fresh "
            "processes for a group of others"
        )
    if rank == 0:
        store.set("name", secrets.token_hex(8))
    _begin(store.get("name").decode(), rank, size, store, end, look)
    return list(range(size))


def _begin(name: str, rank: int, size: int, store: Store, end: float, look: Callable[[], None]) -> None:
    """Initialize MPI in this process as one of a world of this name, whose processes share the store."""
    global _initialized
    pmi = PrefixStore("pmi", store.clone())
    pmi.set_timeout(timedelta(seconds=max(end - time.monotonic(), 1)))
    manager = ProcessManager(pmi, rank, size, name)

    def watch() -> None:
        look()
        if manager.error is not None:
            raise DistBackendError(f"MPI_Init: {manager.error}")

    ending.at_exit(manager, pmi, size)
    began = time.time()
    try:
        with manager:
            _patient_init(end, watch)
    except DistBackendError as error:
        ending.broken.append(error)
        library.forget_names()
        library.remove_orphans(began)
        raise
    MPI = library.load()
    if (MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()) != (rank, size):
        raise DistBackendError(
            f"MPI took this process for rank {MPI.COMM_WORLD.Get_rank()} of {MPI.COMM_WORLD.Get_size()}, not {rank} of {size}: "
            f"{MPI.Get_library_version().split(',')[0]} doesn't ask for its place as MPICH does; start it by its own mpiexec"
        )
    _initialized = name
    ending.say_failures_once(rank)


def _patient_init(end: float, look: Any) -> None:
    try:
        library.patiently(library.initialize, end, look)
    except TimeoutError:
        raise DistBackendError("MPI_Init did not end in time: can the machines reach each other at any port?") from None


def store_under_process_manager(timeout: timedelta) -> tuple[Store, int, int]:
    """(store, rank, size) where mpiexec or srun started this process: MPI knows the world, and carries the store's address."""
    global _initialized
    MPI = library.load()
    if not MPI.Is_initialized():
        _patient_init(time.monotonic() + timeout.total_seconds(), lambda: None)
        ending.at_exit(None, None, MPI.COMM_WORLD.Get_size())
        ending.say_failures_once(MPI.COMM_WORLD.Get_rank())
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    if not _initialized:
        _initialized = MPI.COMM_WORLD.bcast(secrets.token_hex(8))
    store = TCPStore(_own_name(), 0, None, True, timeout) if rank == 0 else None
    host, port = MPI.COMM_WORLD.bcast((store.host, store.port) if store is not None else None)
    if store is None:
        same = host == _own_name()
        store = TCPStore("127.0.0.1" if same else host, port, None, False, timeout)
    return store, rank, size


def _own_name() -> str:
    return socket.gethostname()


def _entry(store: Store, other: int, rank: int, size: int, end: float) -> str:
    """What another rank wrote when it came. Raises DistStoreError that says who is missing, or who sees another world."""
    key = f"here/{other}"
    while not store.check([key]):
        if time.monotonic() > end:
            missing = [r for r in range(size) if not store.check([f"here/{r}"])]
            raise DistStoreError(
                f"rank {rank}: {describe(missing)} of a world of {size} did not come in time "
                f"({size - len(missing)} of {size} are here)"
            )
        with suppress(DistStoreError):
            store.wait([key], timedelta(seconds=min(max(end - time.monotonic(), 0.001), 0.5)))
    entry = store.get(key).decode()
    if int(entry.split()[0]) != size:
        raise DistStoreError(f"rank {rank} was told a world size of {size}, and rank {other} one of {entry.split()[0]}")
    return entry
