"""Where fresh buffers lie in one stretch of memory: each from the step that writes it first to the last one that reads it.

Stands on nothing; used by replay.py.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

LINE = 64  # bytes that places are multiples of


def arrange(lifetimes: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Places for blocks that live from one step to another, both included, and the bytes of all of them together.

    In the order of their first steps a block gets the smallest hole that it fits in; holes that touch are one.
    """
    places, top = [0] * len(sizes), 0
    holes: list[tuple[int, int]] = []  # (begin, end), by begin
    ends: list[tuple[int, int]] = []  # (last step, block), of those that live
    for block in sorted(range(len(sizes)), key=lambda b: (lifetimes[b][0], -sizes[b])):
        first, last = lifetimes[block]
        while ends and ends[0][0] < first:
            _, gone = ends.pop(0)
            _free(holes, places[gone], places[gone] + _rounded(sizes[gone]))
        wanted = _rounded(sizes[block])
        fitting = [(end - begin, begin) for begin, end in holes if end - begin >= wanted]
        if fitting:
            length, begin = min(fitting)
            at = bisect_left(holes, (begin, 0))
            holes[at : at + 1] = [(begin + wanted, begin + length)] if length > wanted else []
        elif holes and holes[-1][1] == top:  # the last one can grow
            begin, _ = holes.pop()
            top = begin + wanted
        else:
            begin, top = top, top + wanted
        places[block] = begin
        insort(ends, (last, block))
    return places, top


def _rounded(size: int) -> int:
    return max(size + LINE - 1, LINE) // LINE * LINE


def _free(holes: list[tuple[int, int]], begin: int, end: int) -> None:
    """Enter a hole, together with those that it touches."""
    at = bisect_left(holes, (begin, end))
    if at < len(holes) and holes[at][0] == end:
        end = holes.pop(at)[1]
    if at and holes[at - 1][1] == begin:
        at -= 1
        begin = holes.pop(at)[0]
    holes.insert(at, (begin, end))
