"""What every operation of a group over MPI does: note the call, compare it with the others', begin, wait, and say what failed.

Stands on mpi and fingerprints; the operations are in the files beside this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import flambeau as torch
from flambeau.core.modes.observing import aside
from flambeau.distributed import watching
from flambeau.distributed.buffers import buffer
from flambeau.distributed.engine.lists import Tensors, shape
from flambeau.distributed.errors import DistBackendError, EngineError
from flambeau.distributed.fingerprints import Fingerprint, compare
from flambeau.distributed.mpi import progress
from flambeau.distributed.mpi.progress import Operation
from flambeau.distributed.mpi.world import World
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.stores import Store
from flambeau.distributed.work import Work

#: Calls whose work has another name in PyTorch's profiles.
_EVENTS = {"all_gather_into_tensor": "gloo:all_gather", "all_to_all_single": "gloo:all_to_all"}


class Calls(ProcessGroup):
    """A group's place in its world, and how its operations begin and end.

    ranks: their ranks in the world; store: shared by them; detail: compare every call between the processes first.
    """

    def _join(
        self,
        world: World,
        ranks: Sequence[int],
        store: Store,
        timeout: timedelta,
        name: str,
        backend: str,
        description: str = "",
        detail: bool = False,
    ) -> None:
        ProcessGroup.__init__(self, store, list(ranks).index(world.rank), len(ranks))
        self._world, self._ranks, self._timeout = world, list(ranks), timeout
        self._name, self._backend, self._detail = name, backend, detail
        self._description = description or self._description
        self._channel = world.channel(self._ranks, timeout)
        self._channel.name = self._what()
        self._barriers = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._world.calls_begun(self._name)

    def set_timeout(self, timeout: timedelta) -> None:
        """How long an operation may take."""
        self._timeout = timeout

    def shutdown(self) -> None:
        """Give back what it holds of MPI's."""
        self._channel.close()

    abort = shutdown

    def _what(self) -> str:
        return f"group {self.group_desc if self.group_desc != 'undefined' else self._name}"

    def _begin(
        self, call: str, tensors: Tensors, how: str = "", timeout: timedelta | None = None, sized: bool = True
    ) -> tuple[Fingerprint, int]:
        """Note a call, and compare it with the others' word by word if that is wanted. sized: ranks agree on sizes."""
        watching.began(call)
        fingerprint = Fingerprint(call, [tensor._layout for tensor in tensors], how, sized)
        number = self._world.begun(self._name, fingerprint)
        if self._detail and self.size() > 1:
            given = fingerprint.encoded(number)
            own = torch.frombuffer(bytearray(given), dtype=torch.uint8)
            everyone = torch.empty(self.size(), len(given), dtype=torch.uint8)
            operation = self._channel.all_gather(call, (own, everyone), None, buffer(own), buffer(everyone))
            self._wait(operation, number, self._seconds(timeout), fingerprint)
            compare([bytes(row.tolist()) for row in everyone], self._rank)
        return fingerprint, number

    def _seconds(self, timeout: timedelta | None) -> float:
        return (timeout or self._timeout).total_seconds()

    def _wait(self, operation: Operation, number: int, seconds: float, call: Any, peers: Sequence[int] | None = None) -> None:
        """Wait for an operation. Raises RuntimeError if it failed, if it never can end, and after the time allowed.

        peers: the ranks that a message may come from or goes to; None where all ranks take part.
        """
        if not operation.done:
            try:
                self._watch(operation, number, seconds, call, peers)
            except TimeoutError:
                error: BaseException = DistBackendError(
                    f"Timed out waiting {round(seconds * 1000)}ms for {call} of {self._what()} to complete on rank "
                    f"{self._world.rank}: " + self._world.explain_timeout(self._ranks, self._name, number, str(call))
                )
                self._world.broke(error)
                self._channel.fail(error, operation)
                raise error from None
            except DistBackendError as error:
                self._channel.fail(error, operation)
                raise
        if operation.error is not None:
            if isinstance(operation.error, EngineError):
                self._world.look_for_a_while(self._ranks, f"{call} of {self._what()}")
            raise operation.error

    def _watch(self, operation: Operation, number: int, seconds: float, call: Any, peers: Sequence[int] | None) -> None:
        """Wait for an operation, with an eye on the other processes."""
        wait = None

        def look(_: Operation) -> None:
            nonlocal wait
            if wait is None:
                wait = self._world.waits.begin(
                    self._name,
                    number,
                    str(call).partition(" ")[0],
                    self._ranks if peers is None else peers,
                    f"{call} of {self._what()}",
                )
            self._world.look_at(wait)
            self._world.look(self._ranks, wait.text, self._name, number, peers)

        try:
            progress.wait(operation, seconds, look)
        finally:
            if wait is not None:
                self._world.waits.end()

    def _work(
        self,
        begun: tuple[Fingerprint, int],
        operation: Operation,
        outputs: Tensors,
        options: Any,
        source: Callable[[int], int] | None = None,
        peers: Sequence[int] | None = None,
    ) -> Work:
        call, number = begun
        end = aside(_EVENTS.get(call.call) or f"gloo:{call.call.partition(' ')[0]}")
        if end is not None:
            operation.when_done(end)
        allowed = getattr(options, "timeout", None)

        def wait(seconds: float | None) -> None:
            self._wait(operation, number, self._seconds(allowed) if seconds is None else seconds, call, peers)

        if getattr(options, "asyncOp", True) and not operation.done:
            self._world.watch(operation)
        return Work(operation, wait, outputs, source)

    def _rank_of(self, name: str, rank: int) -> None:
        if not 0 <= rank < self.size():
            kind = "root " if name not in ("send", "recv") else ""
            raise RuntimeError(f"ProcessGroupGloo::{name}: invalid {kind}rank: {rank}")

    def _same_sizes(self, name: str, given: Any, others: Tensors) -> None:
        for index, other in enumerate(others):
            if other.shape != given.shape:
                raise RuntimeError(
                    f"ProcessGroupGloo::{name}: invalid tensor size at index {index} (expected {shape(given)}, "
                    f"got {shape(other)})"
                )
            if other.dtype is not given.dtype:
                raise RuntimeError(
                    f"ProcessGroupGloo::{name}: invalid tensor type at index {index} (expected {given.dtype}, got {other.dtype})"
                )
