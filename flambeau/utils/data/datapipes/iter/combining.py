"""torch.utils.data.datapipes.iter.combining: several pipes as one, and one as several."""

from __future__ import annotations

import collections
import copy as copies
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.utils.data.datapipes._decorator import functional_datapipe
from flambeau.utils.data.datapipes.datapipe import IterDataPipe
from flambeau.utils.data.datapipes.utils.common import _check_unpickable_fn

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """The items of each pipe, one pipe after the other. ValueError without any, TypeError for what is no pipe."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)  # type: ignore[arg-type]


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of an item of each pipe, as many as the shortest has. TypeError for what is no pipe."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)  # type: ignore[arg-type]


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """An item of each pipe in turn, as often as the shortest has one."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for items in zip(*self.datapipes, strict=False):
            yield from items

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes) * len(self.datapipes)  # type: ignore[arg-type]


# ---------------------------------------------------------------- one as several


class _Shared:
    """A pipe that several are made of: what each of those hasn't taken yet, in one iteration of the pipe at a time."""

    def __init__(self, name: str, datapipe: IterDataPipe, count: int, buffer_size: int) -> None:
        if count < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {count} is found")
        if buffer_size < 0:
            warnings.warn("Unlimited buffer size is set, please be aware of OOM risks", stacklevel=4)
        self.name, self.main_datapipe, self.num_instances, self.buffer_size = name, datapipe, count, buffer_size
        self.iteration = 0
        self.reset()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None, "waiting": [collections.deque() for _ in self.waiting], "buffered": 0}

    def reset(self) -> None:
        """Begin another iteration."""
        self.iteration += 1
        self.source: Iterator[Any] | None = None
        self.waiting: list[collections.deque[Any]] = [collections.deque() for _ in range(self.num_instances)]
        self.buffered = 0

    def receivers(self, item: Any) -> list[tuple[int, Any]]:
        """Which of the pipes an item is for, each with the item as it is given to that one."""
        raise NotImplementedError

    def kept(self) -> int:
        """How many items wait."""
        raise NotImplementedError

    def next(self, number: int) -> Any:
        """The next item of one of the pipes. StopIteration at the end, BufferError where too many wait for the others."""
        while not self.waiting[number]:
            if self.source is None:
                self.source = iter(self.main_datapipe)
            item = next(self.source)
            for receiver, given in self.receivers(item):
                self.waiting[receiver].append(given)
            if 0 <= self.buffer_size < self.kept() - bool(self.waiting[number]):
                raise BufferError(self.overflow())
        return self.waiting[number].popleft()

    def overflow(self) -> str:
        """What is said where too many items wait."""
        return f"{self.name} buffer overflow, buffer size {self.buffer_size} is insufficient."


def _same(item: Any) -> Any:
    return item


class _Forked(_Shared):
    def __init__(self, datapipe: IterDataPipe, count: int, buffer_size: int, copy: str | None) -> None:
        if copy not in (None, "shallow", "deep"):
            raise ValueError(f"Unknown copy method `{copy}` is given, expected 'shallow' or 'deep'")
        self.copy: Callable[[Any], Any] = {None: _same, "shallow": copies.copy, "deep": copies.deepcopy}[copy]
        super().__init__("ForkerIterDataPipe", datapipe, count, buffer_size)

    def receivers(self, item: Any) -> list[tuple[int, Any]]:
        return [(number, self.copy(item)) for number in range(self.num_instances)]

    def kept(self) -> int:
        return max(map(len, self.waiting))

    def overflow(self) -> str:
        return f"{self.name} buffer overflow,buffer size {self.buffer_size} is insufficient."


class _Divided(_Shared):
    def __init__(
        self, datapipe: IterDataPipe, count: int, choose: Callable[[Any], Any], drop_none: bool, buffer_size: int
    ) -> None:
        _check_unpickable_fn(choose)
        self.choose, self.drop_none = choose, drop_none
        super().__init__("DemultiplexerIterDataPipe", datapipe, count, buffer_size)

    def receivers(self, item: Any) -> list[tuple[int, Any]]:
        number = self.choose(item)
        if number is None and self.drop_none:
            return []
        if number is None or not 0 <= number < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {number} is returned."
            )
        return [(number, item)]

    def kept(self) -> int:
        return sum(map(len, self.waiting))


class _ChildDataPipe(IterDataPipe):
    """One of the pipes that a pipe was divided into. A second iteration of one begins all anew and ends the others'."""

    def __init__(self, shared: _Shared, number: int) -> None:
        self.main_datapipe, self.instance_id, self._iteration = shared, number, 0

    def __iter__(self) -> Iterator[Any]:
        shared = self.main_datapipe
        if self._iteration == shared.iteration:
            shared.reset()
        own = self._iteration = shared.iteration
        while True:
            if own != shared.iteration:
                raise RuntimeError(
                    "This iterator has been invalidated because another iterator has been created from the same IterDataPipe: "
                    f"{self!r}\nThis may be caused multiple references to the same IterDataPipe. We recommend using `.fork()` if "
                    "that is necessary."
                )
            try:
                item = shared.next(self.instance_id)
            except StopIteration:
                return
            yield item

    def __len__(self) -> int:
        if isinstance(self.main_datapipe, _Forked):
            return len(self.main_datapipe.main_datapipe)  # type: ignore[arg-type]
        raise TypeError


def _children(shared: _Shared) -> Any:
    return [_ChildDataPipe(shared, number) for number in range(shared.num_instances)]


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """`num_instances` pipes of the same items, of which at most buffer_size wait for the slowest of them."""

    def __new__(  # type: ignore[misc]
        cls, datapipe: IterDataPipe, num_instances: int, buffer_size: int = 1000, copy: str | None = None
    ) -> Any:
        return _children(_Forked(datapipe, num_instances, buffer_size, copy))


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """`num_instances` pipes, to one of which classifier_fn gives each item; drop_none: it may say None, which is none of them."""

    def __new__(  # type: ignore[misc]
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        return _children(_Divided(datapipe, num_instances, classifier_fn, drop_none, buffer_size))
