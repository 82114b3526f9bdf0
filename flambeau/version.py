"""Versions: flambeau's own, and the PyTorch release whose API and behaviour it follows.

Stands on the standard library only. Re-exported as `flambeau.__version__` and `flambeau.version`, where programs look
for the version of PyTorch; used by `locate`, `__config__` and the kernel cache. `pyproject.toml` reads
`FLAMBEAU` here.
"""

from __future__ import annotations

import re
from typing import Any

FLAMBEAU = "0.1.0"
PYTORCH = "2.13.0"


def sort_key(version: str) -> tuple[tuple[int, ...], str]:
    """What versions are ordered by: the release's numbers (zeros at the end don't count), then what follows `+`."""
    public, _, local = version.strip().removeprefix("v").partition("+")
    found = re.match(r"\d+(?:\.\d+)*", public)
    numbers = [int(number) for number in found.group().split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), local


class TorchVersion(str):
    """A version string that compares by its numbers, with strings and with tuples: `torch.__version__ >= (2, 6)`."""

    def _compare(self, other: Any) -> int:
        if isinstance(other, (tuple, list)):
            other = ".".join(str(part) for part in other)
        mine, theirs = sort_key(self), sort_key(str(other))
        return (mine > theirs) - (mine < theirs)

    def __lt__(self, other: Any) -> bool:
        return self._compare(other) < 0

    def __le__(self, other: Any) -> bool:
        return self._compare(other) <= 0

    def __gt__(self, other: Any) -> bool:
        return self._compare(other) > 0

    def __ge__(self, other: Any) -> bool:
        return self._compare(other) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, tuple, list)) and self._compare(other) == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


TorchVersion.__module__ = f"{__name__.partition('.')[0]}.torch_version"
__version__ = TorchVersion(f"{PYTORCH}+flambeau.{FLAMBEAU}")
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "flambeau"
