"""The names of kernels for `perf`: /tmp/perf-PID.map, where it looks for code that lies in no file.

`FLAMBEAU_PERF=1 perf record -g python program.py`, then `perf report`. Stands on image.py; used by jit.py when that switch is on.
"""

from __future__ import annotations

import os
import shutil

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
    with open(path(os.getpid()), "a") as file:
        for place, following in zip(places, [*places[1:], end], strict=True):
            file.write(f"{place:x} {following - place:x} {names[place]}\n")


def in_child(parent: int) -> None:
    """In a forked child: what its parent had is where it was."""
    if os.path.exists(path(parent)):
        shutil.copyfile(path(parent), path(os.getpid()))
