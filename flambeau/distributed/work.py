"""Work: what a collective called with async_op=True returns. Stands on mpi.progress and futures; process groups make it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from flambeau.base.naming import called
from flambeau.distributed.mpi.progress import Operation, Over
from flambeau.futures import Future, collect_all


def _nothing(seconds: float | None) -> None:
    """What is over needs no waiting."""


@called("distributed.distributed_c10d", "Work")
class Work:
    """An operation under way.

    Work() is the base of what programs' own groups return: one that is over at once, unless a subclass says otherwise by wait,
    get_future and result. wait: waits for the operation for so many seconds (None: as long as the group allows), and raises what
    failed. outputs: the tensors that it writes.
    """

    def __init__(
        self,
        operation: Operation | None = None,
        wait: Callable[[float | None], None] | None = None,
        outputs: Sequence[Any] = (),
        source: Callable[[int], int] | None = None,
    ) -> None:
        self._operation = Over() if operation is None else operation
        self._wait = _nothing if wait is None else wait
        self._outputs, self._source = list(outputs), source
        self._future: Future[Any] | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is over. Raises RuntimeError if it failed, or takes longer than the timeout."""
        seconds = timeout.total_seconds() if timeout else None
        self._wait(seconds)
        return True

    def synchronize(self) -> None:
        """Wait until it is over."""
        self._wait(None)

    def is_completed(self) -> bool:
        """Whether it is over."""
        return self._operation.poll()

    def is_success(self) -> bool:
        """Whether it is over and did not fail."""
        return self._operation.poll() and self._operation.error is None

    def exception(self) -> BaseException | None:
        """What failed, if something did."""
        return self._operation.error if self._operation.done else None

    def result(self) -> list[Any]:
        """The tensors that it writes."""
        return self._outputs

    def source_rank(self) -> int:
        """Whose message was received."""
        if self._source is None:
            raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.")
        return self._source(self._operation.source)

    _source_rank = source_rank

    def get_future(self) -> Future[list[Any]]:
        """A Future of the tensors that it writes, complete when it is over."""
        if self._future is None:
            future: Future[Any] = Future()
            operation = self._operation

            def tell() -> None:
                if operation.error is not None:
                    future.set_exception(operation.error)
                else:
                    future.set_result(self._outputs)

            self._future = future
            operation.when_done(tell)
        return self._future

    def boxed(self) -> Work:
        """Itself."""
        return self


@called("distributed.distributed_c10d", "Works")
class Works(Work):
    """Several operations as one."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = list(works)
        self._outputs = [output for work in self._works for output in work.result()]
        self._future = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self._works])

    def is_success(self) -> bool:
        return all([work.is_success() for work in self._works])

    def exception(self) -> BaseException | None:
        return next((error for work in self._works if (error := work.exception()) is not None), None)

    def get_future(self) -> Future[list[Any]]:
        if self._future is None:
            outputs = self._outputs

            def outcome(all: Future[list[Future[Any]]]) -> list[Any]:
                for each in all.value():
                    each.value()
                return outputs

            self._future = collect_all([work.get_future() for work in self._works]).then(outcome)
        return self._future
