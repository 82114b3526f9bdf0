"""Whether all ranks of a channel make the same call, which is asked before a collective's data move.

A digest of the call is reduced over the ranks, sixteen bytes whatever the call is: its largest value and its smallest are equal
where all agree. Where they don't, all ranks know it, none moves data, and the calls themselves are exchanged for the error that
says what differs; the channel goes on to be of use, for each rank has made one call. Stands on library; used by channel.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any, Protocol

from flambeau.distributed.errors import DistBackendError
from flambeau.distributed.mpi import library

_BYTES = 1024  # of a call that is told to the others
_ASPECTS = "call", "number of elements", "dtype", "root, reduction or form"


class Call(Protocol):
    """A call as it is compared: its digest, and the facts of it in the order of _ASPECTS."""

    def digest(self) -> int: ...

    def facts(self) -> Sequence[object]: ...


class Agreement:
    """The question whether all ranks make this call, under way. To be made in the same order by all."""

    __slots__ = ("_extremes", "_request")

    def __init__(self, communicator: Any, call: Call) -> None:
        digest = call.digest()
        self._extremes = array("q", (digest, ~digest))
        MPI = library.load()
        self._request = communicator.Iallreduce(MPI.IN_PLACE, [self._extremes, MPI.INT64_T], MPI.MAX)

    def answered(self) -> bool:
        """Whether the answer is there."""
        return bool(self._request.Test())

    @property
    def same(self) -> bool:
        """The answer."""
        return self._extremes[0] == ~self._extremes[1]


class Disagreement:
    """The exchange of what the ranks call: all begin it where an agreement isn't the same."""

    def __init__(self, call: Call, ranks: Sequence[int]) -> None:
        self._ranks = ranks
        text = json.dumps([str(call)[: _BYTES // 4], *call.facts()]).encode()
        self.own, self.everyone = bytearray(text[:_BYTES].ljust(_BYTES)), bytearray(_BYTES * len(ranks))

    def begin(self, communicator: Any) -> Any:
        """MPI's request."""
        byte = library.load().BYTE
        return communicator.Iallgather([self.own, byte], [self.everyone, byte])

    def fail(self, group: str) -> None:
        """Raise DistBackendError that says which ranks called what."""
        calls = [json.loads(self.everyone[start : start + _BYTES]) for start in range(0, len(self.everyone), _BYTES)]
        callers: dict[str, list[int]] = {}
        for rank, (text, *_) in zip(self._ranks, calls):
            callers.setdefault(text, []).append(rank)
        differing = [name for index, name in enumerate(_ASPECTS, 1) if len({str(each[index]) for each in calls}) > 1]
        who = "; ".join(f"{describe(ranks)} called {text}" for text, ranks in callers.items())
        what = "which call to make" if differing[0] == _ASPECTS[0] else f"the {' and the '.join(differing)} of a call"
        raise DistBackendError(f"the ranks of {group} disagree on {what}: {who}")


def describe(ranks: Sequence[int]) -> str:
    """ "rank 1" or "ranks 1, 2 and 3"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
