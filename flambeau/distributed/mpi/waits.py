"""Which processes wait for each other in a circle, as they do when ranks are in calls of different groups.

Each process knows what its threads wait for. One that has waited for long asks the others over the lifelines, twice: those that
were in the same waits at both times, none of which can end but by a call of another of them, will wait for ever, and are told
so. What isn't certain is left to the timeout: a process counts only if all its threads wait, beside those that the interpreter
doesn't wait for at its end and that have called nothing here. Stands on lifeline; world has one.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

from flambeau.distributed.errors import DistBackendError
from flambeau.distributed.mpi.lifeline import Lifeline, Report
from flambeau.distributed.mpi.progress import Operation

_FIRST, _LONGEST = 5.0, 80.0  # seconds of waiting before the first question, and between later ones
_APART = 1.0  # seconds for which answers are awaited
_STAGGER = 0.05  # seconds between the ranks' first questions


class Wait:
    """What a thread waits for. number: which call of a group, of all `ranks`; 0: a message from or to one of them."""

    def __init__(self, serial: int, group: str, number: int, kind: str, ranks: Sequence[int], text: str) -> None:
        self.serial, self.group, self.number, self.kind, self.ranks, self.text = serial, group, number, kind, ranks, text
        self.pause, self.due = _FIRST, 0.0
        self.asked = 0
        self.before: set[tuple[int, int]] = set()


class Waits:
    """The waits of this process in a world."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._waits: dict[int, Wait] = {}  # by thread
        self._callers: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._messages: list[tuple[str, int, Operation]] = []
        self._serials = itertools.count(1)

    def sent(self, kind: str, peer: int, operation: Operation) -> None:
        """A message is on its way. kind: "send" or "recv"; peer: whose rank, -1 for any."""
        self._messages = [each for each in self._messages if not each[2].done]
        self._messages.append((kind, peer, operation))

    def begin(self, group: str, number: int, kind: str, ranks: Sequence[int], text: str) -> Wait:
        """This thread waits, and has for a moment."""
        made = Wait(next(self._serials), group, number, kind, ranks, text)
        made.due = time.monotonic() + _FIRST + _STAGGER * (self._rank % 64)
        self._callers.add(threading.current_thread())
        self._waits[threading.get_ident()] = made
        return made

    def end(self) -> None:
        """This thread waits no longer."""
        self._waits.pop(threading.get_ident(), None)

    def report(self) -> Report:
        """What the others are told: waits, messages on their way, and whether nobody here computes."""
        waiting = dict(self._waits)
        alive = [each for each in threading.enumerate() if not each.daemon or each in self._callers]
        return (
            [[each.serial, each.group, each.number, each.kind, list(each.ranks), each.text] for each in waiting.values()],
            [[kind, peer] for kind, peer, operation in self._messages if not operation.done],
            bool(waiting) and all(each.ident in waiting for each in alive),
        )

    def check(self, wait: Wait, line: Lifeline) -> None:
        """Raise DistBackendError if this wait is known never to end; ask now and then."""
        serials, why = line.stuck
        if wait.serial in serials:
            raise DistBackendError(f"{wait.text}: {why}")
        now = time.monotonic()
        if now < wait.due:
            return
        if wait.asked == 0 and now - line.asked_at < 2 * _APART:  # somebody else does
            wait.due = now + 3 * _APART
            return
        wait.due = now + _APART
        if wait.asked:
            found = entangled(line.answers())
            if self._rank not in {rank for rank, _ in found}:
                found = set()
            if wait.asked == 2 and found and found == wait.before:
                self._tell(found, line)
            if wait.asked == 2 or not found:
                wait.asked, wait.due = 0, now + wait.pause
                wait.pause = min(2 * wait.pause, _LONGEST)
                return
            wait.before = found
        wait.asked += 1
        line.ask()

    def _tell(self, found: set[tuple[int, int]], line: Lifeline) -> None:
        answers = line.answers()
        where = [
            f"rank {rank} in {text}"
            for rank in sorted({rank for rank, _ in found})
            for serial, _, _, _, _, text in answers[rank][1][0]
            if (rank, serial) in found
        ]
        line.tell_stuck(
            [list(pair) for pair in sorted(found)], "these ranks wait for each other and would for ever: " + "; ".join(where)
        )


def entangled(answers: dict[int, tuple[Any, Report]]) -> set[tuple[int, int]]:
    """The waits, as (rank, serial), that can't end but by a process whose waits can't end. answers: the calls that each process
    has begun in each group, and its report.
    """
    stuck = {rank for rank, (_, (waits, _, idle)) in answers.items() if waits and idle}

    def hopeless(rank: int, wait: Sequence[Any]) -> bool:
        _, group, number, kind, ranks, _ = wait
        others = [each for each in ranks if each != rank]
        if number:
            return any(each in stuck and answers[each][0].get(group, (0, ""))[0] < number for each in others)
        wanted = "send" if kind == "recv" else "recv"
        return all(
            each in stuck and not any(way == wanted and peer in (rank, -1) for way, peer in answers[each][1][1])
            for each in others
        )

    while True:
        free = {rank for rank in stuck if not all(hopeless(rank, wait) for wait in answers[rank][1][0])}
        if not free:
            return {(rank, wait[0]) for rank in stuck for wait in answers[rank][1][0]}
        stuck -= free
