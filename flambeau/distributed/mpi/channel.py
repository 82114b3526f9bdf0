"""Collectives and messages on an MPI communicator, as sequences of nonblocking calls.

All processes of a communicator must begin its collectives in the same order. So each channel has a queue: an operation is
begun when all parts of those before it are. A large one is cut into parts, a few of which are under way at a time: what they
touch stays in the caches, which makes a large all_reduce twice as fast. Buffers are addresses: whoever begins an operation
hands over the tensors that own them. Stands on library, reductions and progress; process groups use it.
"""

from __future__ import annotations

import ctypes
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.distributed.errors import DistBackendError, EngineError
from flambeau.distributed.mpi import library
from flambeau.distributed.mpi.agreement import Agreement, Disagreement
from flambeau.distributed.mpi.progress import Operation
from flambeau.distributed.mpi.reductions import datatype, operation

PART = 4 << 20  # bytes of a part of a collective that works element by element
DIRECT = 1 << 15  # bytes of a piece from which on it goes from rank to rank in a message of its own
WINDOW = 2  # parts that are under way at a time
_END = object()

Buffer = tuple[int, int]  # address and bytes
Finish = Callable[[], None] | None


class MPIOperation(Operation):
    """parts: begins a part each time it is asked for the next, and gives MPI's request; None: those before must be over first.

    agreement: what must be answered before any part begins.
    """

    __slots__ = ("agreement", "channel", "holds", "parts", "requests", "waits_for_message", "window")

    def __init__(self, channel: Channel, what: Any, tensors: Any, finish: Finish, parts: Iterator[Any]) -> None:
        super().__init__(what, tensors, finish)
        self.agreement: Agreement | None = None
        self.holds = False
        self.channel, self.parts = channel, parts
        self.requests: deque[Any] = deque()
        self.waits_for_message = False
        self.window = WINDOW

    def begin_parts(self) -> bool:
        """Begin what the window has room for; whether all is begun then."""
        while len(self.requests) < self.window and not (self.holds and self.requests):
            request = next(self.parts, _END)
            if request is _END:
                return True
            self.holds = request is None
            if request is not None:
                self.requests.append(request)
        return False

    def agreed(self) -> bool:
        """Whether parts may begin: all ranks are known to make this call, or to differ, which is then said in its place."""
        if self.agreement is not None:
            if not self.agreement.answered():
                return False
            self.moved += 1
            if not self.agreement.same:
                self.parts, self.finish = self.channel.disagreement(self.what)
            self.agreement = None
        return True

    def poll(self) -> bool:
        return self.done or self.channel.poll(self)


class Channel:
    """Communicators of several processes, with a queue: one of their own messages and collectives, one of `exchange` and of
    what is asked before a collective. ranks: the processes' in the world.

    what: of each operation, is the call that all ranks must make, as agreement.Call; a str is not compared.
    """

    def __init__(self, communicator: Any, exchanges: Any, ranks: Sequence[int]) -> None:
        self.communicator, self._exchanges, self._ranks = communicator, exchanges, ranks
        self.name = "a group"  # for errors
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()
        self.error: BaseException | None = None  # why it can't be used any more
        self._queue: deque[MPIOperation] = deque()  # begun one after another
        self._abandoned: list[MPIOperation] = []  # MPI may still write to their memory

    def close(self) -> None:
        """Free the communicator, unless something is left under way on it."""
        with library.LOCK:
            if self.error is None and not self._queue:
                self.communicator.Free()
                self._exchanges.Free()

    def fail(self, error: BaseException, current: Operation) -> None:
        """End what is queued, and all that is asked for later, with an error."""
        with library.LOCK:
            self.error = error
            over, self._queue = [*self._queue], deque()
            if current not in over:
                over.append(current)  # type: ignore[arg-type]
            self._abandoned += over
            over = [each for each in over if not each.done]
            for each in over:
                each.settling = True
        for each in over:
            each.settle(error)

    # ------------------------------------------------------------------------------------------------ driving them on

    def _start(
        self, what: Any, tensors: Any, finish: Finish, parts: Iterator[Any], queued: bool = True, window: int = WINDOW
    ) -> MPIOperation:
        made = MPIOperation(self, what, tensors, finish, parts)
        made.window = window
        with library.LOCK:
            if self.error is not None:
                raise type(self.error)(*self.error.args)
            if queued:
                if not isinstance(what, str):
                    made.agreement = Agreement(self._exchanges, what)
                self._queue.append(made)
                self._begin_queued()
            else:
                made.begin_parts()
        return made

    def _begin_queued(self) -> None:
        while self._queue and self._queue[0].agreed() and self._queue[0].begin_parts():
            self._queue.popleft()

    def disagreement(self, call: Any) -> tuple[Iterator[Any], Finish]:
        """The parts of an operation that the ranks don't agree on, and its end, which raises."""
        found = Disagreement(call, self._ranks)
        return (found.begin(self.communicator) for _ in (0,)), lambda: found.fail(self.name)

    def poll(self, operation: MPIOperation) -> bool:
        """Drive an operation on, and those before it; whether it is over."""
        with library.LOCK:
            if operation.done or operation.settling:
                return operation.done
            failure = None
            try:
                self._advance(operation)
            except Exception as error:
                hint = "\nIs what was sent longer than the tensor that receives it?" if operation.waits_for_message else ""
                failure = EngineError(f"{operation.what} on rank {self._ranks[self.rank]}: MPI failed: {error}{hint}")
            if failure is None and (operation.requests or operation in self._queue):
                return False
            operation.settling = True
        if failure is not None:
            self.fail(failure, operation)
        else:
            operation.settle()
        return True

    def _advance(self, operation: MPIOperation) -> None:
        if self._queue:
            head = self._queue[0]
            if head is not operation:
                self._test(head)
            self._begin_queued()
        self._test(operation)
        if self._queue and self._queue[0] is operation:
            self._begin_queued()

    @staticmethod
    def _test(operation: MPIOperation) -> None:
        requests = operation.requests
        while requests:
            if operation.waits_for_message:
                status = library.load().Status()
                if not requests[0].Test(status):
                    return
                operation.source = status.Get_source()
            elif not requests[0].Test():
                return
            requests.popleft()
            operation.moved += 1

    # ------------------------------------------------------------------------------------------------ collectives

    def all_reduce(self, what: Any, tensors: Any, finish: Finish, buffer: Buffer, kind: str, dtype: DType) -> Operation:
        op, MPI = operation(kind, dtype), library.load()
        parts = (self.communicator.Iallreduce(MPI.IN_PLACE, piece, op) for piece in _pieces(buffer, dtype.itemsize))
        return self._start(what, tensors, finish, parts)

    def broadcast(self, what: Any, tensors: Any, finish: Finish, buffer: Buffer, root: int) -> Operation:
        parts = (self.communicator.Ibcast(piece, root) for piece in _pieces(buffer, 1))
        return self._start(what, tensors, finish, parts)

    def all_gather(self, what: Any, tensors: Any, finish: Finish, own: Buffer, all: Buffer) -> Operation:
        return self._once(what, tensors, finish, lambda: self.communicator.Iallgather(_bytes(own), _bytes(all)))

    def gather(self, what: Any, tensors: Any, finish: Finish, own: Buffer, all: Buffer | None, root: int) -> Operation:
        return self._once(
            what, tensors, finish, lambda: self.communicator.Igather(_bytes(own), None if all is None else _bytes(all), root)
        )

    def scatter(self, what: Any, tensors: Any, finish: Finish, own: Buffer, all: Buffer | None, root: int) -> Operation:
        return self._once(
            what, tensors, finish, lambda: self.communicator.Iscatter(None if all is None else _bytes(all), _bytes(own), root)
        )

    def exchange(
        self,
        what: Any,
        tensors: Any,
        finish: Finish,
        given: Sequence[tuple[int, Buffer]],
        wanted: Sequence[tuple[int, Buffer]],
        uneven: bool = False,
    ) -> Operation:
        """Pieces to ranks, and pieces from ranks into their places, each at once and without a copy. What all ranks give fits
        what they want; uneven: that isn't known of these pieces, one for and one from each, and is asked first.
        """

        def parts() -> Iterator[Any]:
            fits = [True] * self.size
            if uneven:
                own = array("q", [number for pair in zip(given, wanted) for _, (_, number) in pair])
                others = array("q", own)
                yield self._exchanges.Ialltoall([own, library.load().INT64_T], [others, library.load().INT64_T])
                yield None
                fits = [own[2 * r : 2 * r + 2] == others[2 * r : 2 * r + 2][::-1] for r in range(self.size)]
                misfits.extend(
                    f"rank {self._ranks[r]} sends {others[2 * r]} bytes where {own[2 * r + 1]} are expected, and "
                    f"expects {others[2 * r + 1]} where {own[2 * r]} are sent"
                    for r in range(self.size)
                    if not fits[r]
                )
            for (_, source), (_, target) in zip(
                [each for each in given if each[0] == self.rank], [each for each in wanted if each[0] == self.rank]
            ):
                if fits[self.rank] and source[0] != target[0]:
                    ctypes.memmove(target[0], source[0], source[1])
            for rank, buffer in wanted:
                if rank != self.rank and fits[rank]:
                    yield self._exchanges.Irecv(_bytes(buffer), rank)
            for step in range(1, self.size):  # not all to the same rank first
                for rank, buffer in given:
                    if rank == (self.rank + step) % self.size and fits[rank]:
                        yield self._exchanges.Isend(_bytes(buffer), rank)

        def end() -> None:
            if misfits:
                raise DistBackendError(
                    f"{what} of {self.name}: the ranks disagree on sizes: on rank {self._ranks[self.rank]}, " + "; ".join(misfits)
                )
            if finish is not None:
                finish()

        misfits: list[str] = []
        return self._start(what, tensors, end if uneven else finish, parts(), window=2 * self.size)

    def reduce_scatter(
        self, what: Any, tensors: Any, finish: Finish, all: Buffer, own: Buffer, counts: Sequence[int], kind: str, dtype: DType
    ) -> Operation:
        """counts: elements that each rank is to get."""
        op = operation(kind, dtype)
        given, made = _elements(all, dtype.itemsize), _elements(own, dtype.itemsize)
        if len(set(counts)) == 1:
            return self._once(what, tensors, finish, lambda: self.communicator.Ireduce_scatter_block(given, made, op))
        return self._once(what, tensors, finish, lambda: self.communicator.Ireduce_scatter(given, made, list(counts), op))

    def all_to_all(self, what: Any, tensors: Any, finish: Finish, given: Buffer, made: Buffer) -> Operation:
        """Equal pieces from and to all ranks."""
        return self._once(what, tensors, finish, lambda: self.communicator.Ialltoall(_bytes(given), _bytes(made)))

    def barrier(self, what: Any) -> Operation:
        """All ranks are here when they have been asked whether they agree."""
        return self._start(what, (), None, iter(()))

    def _once(self, what: Any, tensors: Any, finish: Finish, begin: Callable[[], Any]) -> Operation:
        return self._start(what, tensors, finish, (call() for call in (begin,)))

    # ------------------------------------------------------------------------------------------------ messages

    def send(self, what: Any, tensors: Any, buffer: Buffer, target: int, tag: int) -> Operation:
        parts = (self.communicator.Isend(_bytes(buffer), target, tag) for _ in (0,))
        return self._start(what, tensors, None, parts, queued=False)

    def receive(self, what: Any, tensors: Any, finish: Finish, buffer: Buffer, source: int | None, tag: int) -> Operation:
        """source: None takes whatever comes first."""
        whom = library.load().ANY_SOURCE if source is None else source
        parts = (self.communicator.Irecv(_bytes(buffer), whom, tag) for _ in (0,))
        made = self._start(what, tensors, finish, parts, queued=False)
        made.waits_for_message = True
        return made


def _memory(buffer: Buffer) -> Any:
    return library.load().buffer.fromaddress(*buffer)


def _bytes(buffer: Buffer) -> Any:
    return [_memory(buffer), library.load().BYTE]


def _elements(buffer: Buffer, itemsize: int) -> Any:
    return [_memory(buffer), datatype(itemsize)]  # MPI counts what is there


def _pieces(buffer: Buffer, itemsize: int) -> Iterator[Any]:
    address, size = buffer
    for start in range(0, max(size, 1), PART):
        yield _elements((address + start, min(PART, size - start)), itemsize)
