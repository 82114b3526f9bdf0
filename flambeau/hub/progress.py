"""The progress bar of downloads: the package tqdm's, or a plain percentage where it isn't installed."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["_Faketqdm", "tqdm"]


class _Faketqdm:
    """A progress bar that writes a percentage to standard error."""

    def __init__(self, total: Any = None, disable: bool = False, unit: Any = None, *args: Any, **kwargs: Any) -> None:
        self.total, self.disable, self.n = total, disable, 0

    def update(self, n: int) -> None:
        """`n` more of the total are done."""
        if self.disable:
            return
        self.n += n
        done = f"{self.n:.1f} bytes" if self.total is None else f"{100 * self.n / self.total:.1f}%"
        sys.stderr.write("\r" + done)
        sys.stderr.flush()

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """A percentage has no description."""

    def write(self, s: str) -> None:
        """A line of its own."""
        sys.stderr.write(f"{s}\n")

    def close(self) -> None:
        """End of the bar."""
        self.disable = True

    def __enter__(self) -> _Faketqdm:
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.disable:
            sys.stderr.write("\n")


try:
    from tqdm import tqdm
except ImportError:
    tqdm = _Faketqdm
