"""What a checkpoint names that weights_only=True refuses, found without running anything. Stands on archive and allowed."""

from __future__ import annotations

import pickletools
from typing import Any

from flambeau.serialize import allowed, names
from flambeau.serialize.archive import ArchiveReader, is_archive

__all__ = ["get_unsafe_globals_in_checkpoint"]


def _names(content: bytes) -> set[str]:
    """The full names that a pickle asks for."""
    found = set()
    texts: list[str] = []  # what STACK_GLOBAL takes its two names from
    memo: dict[int, str] = {}
    for operation, argument, _ in pickletools.genops(content):
        if operation.name == "GLOBAL":
            found.add(".".join(names.modern(*str(argument).split(" "))))
        elif operation.name == "STACK_GLOBAL":
            found.add(".".join(texts[-2:]))
        elif operation.name in ("MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT") and texts:
            memo[len(memo) if argument is None else argument] = texts[-1]
        elif operation.name in ("BINGET", "LONG_BINGET", "GET") and argument in memo:
            texts.append(memo[argument])
        elif isinstance(argument, str):
            texts.append(argument)
    return found


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The full names of classes and functions in a file of torch.save that a load with weights_only=True would refuse.

    f: a path or a binary file. Raises ValueError for a file that is no archive of torch.save.
    """
    if isinstance(f, str) or hasattr(f, "__fspath__"):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    if not is_archive(f):
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    reader = ArchiveReader(f)
    refused = []
    for name in sorted(_names(reader.open("data.pkl").read())):
        try:
            allowed.lookup(name)
        except KeyError:
            refused.append(name)
    return refused
