"""The names of kernels for `perf`: /tmp/perf-PID.map, where it looks for code that lies in no file.

`FLAMBEAU_PERF=1 perf record -g python program.py`, then `perf report`. Stands on image.py; used by jit.py when that switch is on.
"""

from __future__ import annotations

import os
import stat
from typing import TextIO

from flambeau.codegen.object_cache.image import Image


def path(process: int) -> str:
    """Where `perf` looks for the names of a process' code."""
    return f"/tmp/perf-{process}.map"


def add(image: Image, functions: dict[str, int], name: str, entry: str) -> None:
    """List the functions of a mapped image: `entry` as the kernel `name` ("": there is no such), others with that in front."""
    names = {address: f"{name}.{function}" for function, address in functions.items()}
    if entry:
        names[functions[entry]] = name
    places = sorted(names)
    function = next(iter(functions))
    end = functions[function] - image.functions[function] + len(image.code)
    with _opened(os.getpid(), "a", os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file:
        for place, following in zip(places, [*places[1:], end], strict=True):
            file.write(f"{place:x} {following - place:x} {names[place]}\n")


def _opened(process: int, mode: str, flags: int) -> TextIO:
    """The list of a process, a file of this user's. Raises OSError for another's and for links, which anybody can put there."""
    file = os.open(path(process), flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
        os.close(file)
        raise PermissionError(1, "somebody else's file lies where the names of kernels for perf go; remove it", path(process))
    return open(file, mode)


def in_child(parent: int) -> None:
    """In a forked child: what its parent had is where it was."""
    try:
        source = _opened(parent, "r", os.O_RDONLY)
    except FileNotFoundError:
        return
    with source, _opened(os.getpid(), "w", os.O_WRONLY | os.O_CREAT) as file:
        file.truncate()
        file.write(source.read())
