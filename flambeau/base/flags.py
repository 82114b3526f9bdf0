"""Switches read once from the environment, each settable for a block of code.

`FLAMBEAU_DEBUG=1..5` is the debug ladder, each rung one layer deeper: 1 operators, 2 plans, 3 loop nests, 4 LLVM,
5 machine code. `FLAMBEAU_TRACEBACK=full` has errors show the frames inside this package (base.tracebacks).
`FLAMBEAU_VECTOR_BYTES` is described in codegen.cpu. `FLAMBEAU_WINOGRAD` is when convolutions take Winograd's form: auto where
it is faster, always where it can be, never. `FLAMBEAU_WEIGHT_CACHE` bounds what is kept of weights by
codegen.runtime.weight_cache: auto, never, or a number of bytes. `FLAMBEAU_COMPILE` says what torch.compile's default backend
does: on; off, functions run as they are; check, replays are compared with the functions (capture.check). `FLAMBEAU_PASSES` says
which passes its programs go through (codegen.programs.passes): on, all of them; off; or names with commas between them.
`FLAMBEAU_PERF=1` tells `perf` the names of kernels (codegen.object_cache.perf_map). Used by all layers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["WINOGRAD", "Flags", "debug", "flags"]

WINOGRAD = ("auto", "always", "never")
COMPILE = {"": "on", "on": "on", "1": "on", "off": "off", "0": "off", "check": "check"}


def _integer(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name} must be an integer, got {text!r}") from None


class Flags:
    """The switches of this process; `flags` is the only instance."""

    __slots__ = ("compile", "debug", "full_traceback", "passes", "perf", "vector_bytes", "weight_cache", "winograd")

    def __init__(self) -> None:
        self.debug = _integer("FLAMBEAU_DEBUG", 0)
        traceback = os.environ.get("FLAMBEAU_TRACEBACK", "").strip() or "short"
        if traceback not in ("short", "full"):
            raise ValueError(f"the environment variable FLAMBEAU_TRACEBACK must be short or full, got {traceback!r}")
        self.full_traceback = traceback == "full"
        self.perf = bool(_integer("FLAMBEAU_PERF", 0))
        self.vector_bytes = _integer("FLAMBEAU_VECTOR_BYTES", 64)
        if self.vector_bytes not in (16, 32, 64):
            raise ValueError(f"the environment variable FLAMBEAU_VECTOR_BYTES must be 16, 32 or 64, got {self.vector_bytes}")
        self.winograd = os.environ.get("FLAMBEAU_WINOGRAD", "").strip() or "auto"
        if self.winograd not in WINOGRAD:
            raise ValueError(
                f"the environment variable FLAMBEAU_WINOGRAD must be one of {', '.join(WINOGRAD)}, got {self.winograd!r}"
            )
        compiled = os.environ.get("FLAMBEAU_COMPILE", "").strip()
        if compiled not in COMPILE:
            raise ValueError(f"the environment variable FLAMBEAU_COMPILE must be on, off or check, got {compiled!r}")
        self.compile = COMPILE[compiled]
        passes = os.environ.get("FLAMBEAU_PASSES", "").strip() or "on"
        self.passes = None if passes == "on" else frozenset(() if passes == "off" else map(str.strip, passes.split(",")))
        most = os.environ.get("FLAMBEAU_WEIGHT_CACHE", "").strip() or "auto"
        if most not in ("auto", "never") and not most.isdecimal():
            raise ValueError(
                f"the environment variable FLAMBEAU_WEIGHT_CACHE must be auto, never or a number of bytes, got {most!r}"
            )
        self.weight_cache: str | int = int(most) if most.isdecimal() else most


flags = Flags()


@contextlib.contextmanager
def debug(level: int) -> Iterator[None]:
    """Climb the debug ladder to `level` inside a `with` block."""
    before = flags.debug
    flags.debug = level
    try:
        yield
    finally:
        flags.debug = before
