"""The parts of a matrix's scratch memory: names and places, as constants of a kernel. Stands on nothing; used by eigh.py and
svd.py."""

from __future__ import annotations


def laid_out(sizes: dict[str, int]) -> tuple[dict[str, int], int]:
    """(where each part begins, all of it) in bytes, in lines of the cache; a line in front of each part is spare."""
    places, at = {}, 0
    for name, size in sizes.items():
        places[name] = at + 64
        at += 64 + -(-size // 64) * 64
    return places, at
